"""How do two tasks of one slot exchange elements, and how does a task read several channels?"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from cutwater.runtime.seams import Element, InputChannel

LOCAL_ELEMENTS_MAX = 16


class LocalChannel:
    """Both ends of a channel inside one slot. One thread, so a plain queue."""

    __slots__ = ("_queue",)

    def __init__(self) -> None:
        self._queue: deque[Element] = deque()

    def send(self, element: Element) -> None:
        self._queue.append(element)

    def has_room(self) -> bool:
        return len(self._queue) < LOCAL_ELEMENTS_MAX

    def poll(self) -> Element | None:
        return self._queue.popleft() if self._queue else None

    def __len__(self) -> int:
        return len(self._queue)


class InputGate:
    """The channels of one task, read in turn; blocked and ended ones are passed over."""

    def __init__(self, channels: Sequence[InputChannel], ports: Sequence[int]) -> None:
        self._channels = list(channels)
        self.ports = list(ports)
        self._readable = list(range(len(channels)))
        self._blocked: set[int] = set()
        self._ended: set[int] = set()
        self._turn = 0

    def poll(self) -> tuple[int, Element] | None:
        """The next element with its channel's number, or None when no readable channel has one."""
        readable = self._readable
        count = len(readable)
        for offset in range(count):
            position = (self._turn + offset) % count
            channel = readable[position]
            element = self._channels[channel].poll()
            if element is not None:
                self._turn = position + 1
                return channel, element
        return None

    def block(self, channel: int) -> None:
        self._blocked.add(channel)
        self._update()

    def unblock(self, channels: Iterable[int]) -> None:
        self._blocked.difference_update(channels)
        self._update()

    def end(self, channel: int) -> None:
        self._ended.add(channel)
        self._update()

    @property
    def all_ended(self) -> bool:
        return len(self._ended) == len(self._channels)

    def __len__(self) -> int:
        """Elements waiting in all channels."""
        return sum(len(channel) for channel in self._channels)

    def _update(self) -> None:
        closed = self._blocked | self._ended
        self._readable = [channel for channel in range(len(self._channels)) if channel not in closed]

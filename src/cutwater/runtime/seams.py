"""What does the runtime need of the world?

The slot loop and the coordinator touch clock, network, storage and threads only through these. Production implements
them with Arrow Flight, pyarrow.fs and a thread pool; the simulator with one seeded scheduler.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from cutwater.batches import Batch
from cutwater.connectors.contract import OwnThread
from cutwater.operators.contract import EventLoop, FinishedCalls
from cutwater.protocol.elements import Control
from cutwater.protocol.ids import AttemptNumber, SlotId
from cutwater.runtime.messages import FromCoordinator, FromSlot

Element: TypeAlias = Batch | Control


@dataclass(frozen=True, slots=True, order=True)
class ChannelId:
    """A channel of one attempt: an edge of the execution graph between two subtasks."""

    attempt: AttemptNumber
    edge: int
    sender: int
    receiver: int


class Clock(Protocol):
    def now_seconds(self) -> float:
        """Monotonic seconds; only differences mean anything."""
        ...

    def wall_ms(self) -> int:
        """Milliseconds since the epoch: what processing time is, and what event time can be compared with."""
        ...

    def timestamp(self) -> str:
        """The time of day, ISO 8601 in UTC, for people who read manifests."""
        ...


class InputChannel(Protocol):
    """The receiving end, used by the loop's thread."""

    def poll(self) -> Element | None:
        """The next element, or None when nothing is there. Never blocks. Raises when the channel broke."""
        ...

    def __len__(self) -> int:
        """Elements waiting."""
        ...


class OutputChannel(Protocol):
    """The sending end, used by the loop's thread."""

    def send(self, element: Element) -> None:
        """Queues the element. Never blocks and never refuses: `has_room` is the polite question before."""
        ...

    def has_room(self) -> bool:
        """False: the receiver is behind; stop producing. Raises when the channel broke."""
        ...


class Connection(Protocol):
    """One end of what carries channels to another slot, or from it; channels may share one. For the loop's thread."""

    @property
    def peer(self) -> str:
        """The other end, for people."""
        ...

    def signs_of_life(self) -> int | None:
        """How often something was heard from the other end; None: it has ended, or says itself that it broke."""
        ...

    def ping(self) -> None:
        """Asks for a sign of life. The other end's transport answers: its loop may be in a long call, its queues may be
        full. Never blocks.
        """
        ...


class Transport(Protocol):
    """Channels between slots. Local ones are the slot's own business."""

    @property
    def address(self) -> str:
        """Where other slots reach this one."""
        ...

    def open_input(self, channel: ChannelId, token: str) -> InputChannel:
        """Ready to be connected to, from now on; only with this token."""
        ...

    def open_output(self, channel: ChannelId, address: str, token: str) -> OutputChannel:
        """Connects to the slot at the address, in the background."""
        ...

    def connections(self, attempt: AttemptNumber) -> Sequence[Connection]:
        """Those that carry channels of the attempt now."""
        ...

    def drop(self, attempt: AttemptNumber) -> None:
        """Closes every channel of the attempt at once; elements under way are lost, as they must be."""
        ...


class Background(Protocol):
    """Work off the loop's thread."""

    def submit(self, work: Callable[[], Any], done: Callable[[Any, BaseException | None], None]) -> None:
        """Runs `work` elsewhere, then `done(result, error)` on the owner's thread."""
        ...


class EventLoopMaker(Protocol):
    """Where the coroutines of users run."""

    def __call__(self, post: Callable[[Callable[[], None]], None], done: Callable[[FinishedCalls], None]) -> EventLoop:
        """`done` is called with what has finished on the owner's thread, to which `post` brings a call."""
        ...


class OwnThreadMaker(Protocol):
    """Where a writer runs a user's code."""

    def __call__(self, post: Callable[[Callable[[], None]], None]) -> OwnThread:
        """`post` brings a call to the owner's thread. From any thread."""
        ...


class SlotLink(Protocol):
    """The slot's line to its coordinator. FIFO. Messages from the coordinator arrive through `Slot.deliver`."""

    def send(self, message: FromSlot) -> None: ...


class SlotLines(Protocol):
    """The coordinator's lines to its slots. FIFO per slot; sending to a lost slot does nothing."""

    def send(self, slot: SlotId, message: FromCoordinator) -> None: ...

    def hang_up(self, slot: SlotId) -> None:
        """Breaks the line: the slot ends itself."""
        ...


class SlotProvider(Protocol):
    """Whoever starts slots: Spark, or the simulator."""

    def ensure(self, count: int) -> None:
        """Keep this many slots alive from now on; lost ones are replaced. Does not block."""
        ...

    def replace(self, slot: SlotId) -> None:
        """This slot is of no use any more, though its process may live: start another. Does not block."""
        ...

    def shortage(self) -> str:
        """Why slots are missing, for people: "2 of 4 slots: 2 cores are free, 4 wanted"."""
        ...

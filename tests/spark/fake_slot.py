"""A slot that does nothing: it lives until it is told to end."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from cutwater.protocol.ids import SlotId
from cutwater.runtime.messages import EndSlot, FirstRecordProcessed, FromCoordinator, StartAttempt
from cutwater.runtime.turn import Turn


class FakeSlot:
    """Answers each `StartAttempt`, so that tests see that messages go both ways."""

    def __init__(self, slot_id: SlotId, *, link: Any, **services: Any) -> None:
        self.ended = False
        self.turn = Turn()
        self._link = link
        self._mailbox: deque[Callable[[], None]] = deque()

    def deliver(self, message: FromCoordinator) -> None:
        self.post(lambda: self._handle(message))

    def post(self, work: Callable[[], None]) -> None:
        self._mailbox.append(work)

    def step(self) -> bool:
        if not self._mailbox:
            return False
        self._mailbox.popleft()()
        return True

    def wake_at(self) -> float | None:
        return None

    def _handle(self, message: FromCoordinator) -> None:
        match message:
            case EndSlot():
                self.ended = True
            case StartAttempt(attempt=attempt):
                self._link.send(FirstRecordProcessed(attempt))
            case _:
                pass


make_fake_slot = FakeSlot

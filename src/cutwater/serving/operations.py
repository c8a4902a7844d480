"""How is something asked of a job that takes longer than a request may? A thread waits for it; whoever asked polls."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from itertools import count
from typing import Literal

import msgspec

from cutwater.serving.answering import Refusal
from cutwater.serving.words import Operation
from cutwater.status import failure_of

What = Literal["checkpoint", "savepoint", "stop", "rescale"]

UNDER_WAY_MAX = 16
REMEMBERED_MAX = 100


class RunningOperations:
    """A thread waits for each. Its methods are for any thread."""

    def __init__(self) -> None:
        self._read = threading.Condition()
        self._known: dict[str, Operation] = {}
        self._numbers = count(1)
        self._unread: set[str] = set()

    def start(self, what: What, call: Callable[[], str | None]) -> Operation:
        """`call` blocks until it is done, and gives the path of a savepoint."""
        with self._read:
            if sum(each.state == "in_progress" for each in self._known.values()) >= UNDER_WAY_MAX:
                raise Refusal(
                    429, f"{UNDER_WAY_MAX} operations are under way already", hint="wait until one of them is done"
                )
            operation = Operation(f"{what}-{next(self._numbers)}", what, "in_progress", time.time_ns() // 1_000_000)
            self._known[operation.operation] = operation
            self._unread.add(operation.operation)
            self._forget_oldest()
        name = f"cutwater-control-{operation.operation}"
        threading.Thread(target=self._run, args=(operation, call), name=name, daemon=True).start()
        return operation

    def find(self, name: str) -> Operation | None:
        """For an answer: one that is over counts as read. `Listeners` knows when the answer has left."""
        with self._read:
            found = self._known.get(name)
            if found is not None and found.state != "in_progress":
                self._unread.discard(name)
                self._read.notify_all()
            return found

    def all(self) -> list[Operation]:
        with self._read:
            return list(self._known.values())

    def wait_until_read(self, seconds: float) -> None:
        """Returns when nobody can still want to know how something ended, or after this time."""
        with self._read:
            self._read.wait_for(lambda: not self._unread, seconds)

    def _run(self, operation: Operation, call: Callable[[], str | None]) -> None:
        try:
            done = msgspec.structs.replace(operation, state="completed", path=call() or None)
        except Exception as error:
            done = msgspec.structs.replace(operation, state="failed", failure=failure_of(error))
        with self._read:
            self._known[operation.operation] = done

    def _forget_oldest(self) -> None:
        over = [name for name, each in self._known.items() if each.state != "in_progress"]
        for name in over[: max(0, len(self._known) - REMEMBERED_MAX)]:
            del self._known[name]
            self._unread.discard(name)

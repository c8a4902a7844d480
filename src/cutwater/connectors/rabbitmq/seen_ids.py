"""Which messages of a queue were read before?"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable


class SeenIds:
    """Which ids were seen up to which number? Bounded: of acknowledged messages, only the last ones are remembered.

    The reader's thread adds, the loop's thread asks.
    """

    def __init__(self, number: int, ids: Iterable[str], *, remember: int) -> None:
        self._lock = threading.Lock()
        self._remember = remember
        #: In the order of their messages; the number is that behind the last of them.
        self._batches: deque[tuple[int, list[str]]] = deque([(number, list(ids))])
        self._all = set(self._batches[0][1])

    def add(self, ids: list[str], number: int) -> list[int]:
        """The indexes of those that were not seen before."""
        with self._lock:
            new: list[int] = []
            for index, each in enumerate(ids):
                if each not in self._all:
                    self._all.add(each)
                    new.append(index)
            self._batches.append((number, [ids[index] for index in new]))
            return new

    def up_to(self, number: int) -> list[str]:
        """All that are remembered of the messages up to this number."""
        with self._lock:
            return [each for batch_number, ids in self._batches if batch_number <= number for each in ids]

    def acknowledged(self, number: int) -> None:
        """Messages up to this number need not come again."""
        with self._lock:
            count = sum(len(ids) for batch_number, ids in self._batches if batch_number <= number)
            while count - len(self._batches[0][1]) >= self._remember:
                _, ids = self._batches.popleft()
                self._all.difference_update(ids)
                count -= len(ids)

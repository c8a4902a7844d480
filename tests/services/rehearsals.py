"""Does a reader lose or repeat anything, whatever fails? Without a job: the test plays the runtime, attempt by attempt.

An attempt reads, takes snapshots, hears of their completion sooner or later, and fails at any moment: then what was
read since the last completed snapshot is taken back, and the next attempt begins at its position.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from cutwater.batches import rows_of
from cutwater.connectors.contract import ReaderContext, Source, SplitReader
from cutwater.protocol.splits import Split

#: For a server to come back, too.
DEADLINE_SECONDS = 120.0


@dataclass
class Rehearsal:
    """Reads one split to an expected number of records, and fails at random."""

    source: Source
    split: Split
    draw: random.Random
    #: Of one call of `read`.
    limit: int = 1024
    records: list[Any] = field(default_factory=list)
    failures: int = 0
    #: Of the last completed snapshot: position and number of records.
    completed: tuple[Any, int] = (None, 0)

    def read(
        self, until: Callable[[list[Any]], bool], *, failures: int, between: Callable[[], None] = lambda: None
    ) -> None:
        """Reads until the condition holds, with so many failures on the way; `between` is called at every failure."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        reader = self._open()
        try:
            pending: list[tuple[Any, int]] = []
            while not until(self.records):
                assert time.monotonic() < deadline, f"{len(self.records)} records after {DEADLINE_SECONDS} s"
                self._read_some(reader)
                if self.draw.random() < 0.1:
                    pending.append((_stored(reader.position), len(self.records)))
                if pending and self.draw.random() < 0.1:
                    self.completed = pending.pop(self.draw.randrange(len(pending)))
                    pending = [other for other in pending if other[1] > self.completed[1]]
                    reader.checkpoint_completed(self.completed[0])
                if self.failures < failures and self.draw.random() < 0.02:
                    self.failures += 1
                    reader.close()
                    between()
                    pending.clear()
                    del self.records[self.completed[1] :]
                    reader = self._open()
            self.completed = (_stored(reader.position), len(self.records))
            reader.checkpoint_completed(self.completed[0])
            time.sleep(1)  # for the acknowledgement
        finally:
            reader.close()

    def _open(self) -> SplitReader:
        return self.source.reader(self.split, self.completed[0], ReaderContext())

    def _read_some(self, reader: SplitReader) -> None:
        batch = reader.read(self.limit, 0.0)
        if batch is None:
            time.sleep(0.002)
        else:
            self.records.extend(rows_of(batch))


def _stored(position: Any) -> Any:
    return msgspec.msgpack.decode(msgspec.msgpack.encode(position))

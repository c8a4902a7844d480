"""How do the lines of a job come together in the driver?

What slots send goes into the book of the job, and on through the driver's logging. A thread of its own does it: a
handler that blocks holds up neither the coordinator nor the lines to the slots.
"""

from __future__ import annotations

import logging
import threading
import time
from queue import SimpleQueue
from typing import Final

from cutwater import logs
from cutwater.protocol.ids import SlotId
from cutwater.runtime.log_book import LogBook
from cutwater.runtime.messages import LinesLogged
from cutwater.status import LogLine

#: Messages that wait for the driver's logging; what comes while it is slower than that is dropped.
WAITING_MAX: Final = 200
CLOSING_SECONDS: Final = 2.0


class LogRelay:
    """Of one job. For any thread; `close` apart, nothing blocks."""

    def __init__(self, job_id: str) -> None:
        logs.listen()
        self._job_id = job_id
        self._book = LogBook()
        self._handler = BookHandler(self._book, job_id)
        self._queue: SimpleQueue[tuple[SlotId, LinesLogged] | None] = SimpleQueue()
        self._dropped: dict[SlotId, int] = {}
        self._thread = threading.Thread(target=self._run, name=f"cutwater-logs-{job_id}", daemon=True)
        logs.logger.addHandler(self._handler)
        self._thread.start()

    def take(self, slot: SlotId, message: LinesLogged) -> None:
        if self._queue.qsize() < WAITING_MAX:
            dropped = self._dropped.pop(slot, 0)
            self._queue.put((slot, LinesLogged(message.lines, message.dropped + dropped)))
        else:
            self._dropped[slot] = self._dropped.get(slot, 0) + len(message.lines) + message.dropped

    def after(self, number: int) -> tuple[LogLine, ...]:
        return self._book.after(number)

    def close(self) -> None:
        """Returns when all that came has been told, or after a moment."""
        self._queue.put(None)
        self._thread.join(CLOSING_SECONDS)
        logs.logger.removeHandler(self._handler)

    def _run(self) -> None:
        while (item := self._queue.get()) is not None:
            for line in self._written(*item):
                logs.pass_on(line, self._job_id)

    def _written(self, slot: SlotId, message: LinesLogged) -> list[LogLine]:
        lines = [
            self._book.add(
                at_ms=line.at_ms,
                level=line.level,
                logger=line.logger,
                text=line.text,
                slot=slot,
                attempt=line.attempt,
                task=line.task,
            )
            for line in message.lines
        ]
        if message.dropped:
            text = f"… {message.dropped:,} lines more were dropped: too many at once"
            now_ms = time.time_ns() // 1_000_000
            lines.append(self._book.add(at_ms=now_ms, level="WARNING", logger=logs.logger.name, text=text, slot=slot))
        return lines


class BookHandler(logging.Handler):
    """Puts the driver's own lines into the book of a job: those that are about it, or about no job in particular."""

    def __init__(self, book: LogBook, job_id: str) -> None:
        super().__init__()
        self._book = book
        self._job_id = job_id

    def emit(self, record: logging.LogRecord) -> None:
        if record.name == logs.slots_logger.name or getattr(record, "job", self._job_id) != self._job_id:
            return
        try:
            self._book.add(
                at_ms=int(record.created * 1000),
                level=record.levelname,
                logger=record.name,
                text=self.format(record),
                attempt=getattr(record, "attempt", 0),
            )
        except Exception:
            self.handleError(record)

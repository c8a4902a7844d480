"""How does what users' code logs and prints in a slot reach the driver?

A handler of the root logger, and standard output and error as streams that also listen. What is written still goes
where it went before. A thread of its own sends what was collected, so that neither a flood nor a long call matters.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, Final, TextIO

from cutwater.runtime.line_collector import LINE_CHARACTERS_MAX, LineCollector
from cutwater.runtime.messages import LinesLogged
from cutwater.runtime.turn import Turn

SEND_SECONDS: Final = 0.25
CLOSING_SECONDS: Final = 1.0
PRINTED: Final = "PRINT"

_STREAM_HANDLER = logging.StreamHandler.emit.__code__


class SlotLogs:
    """Listens from `start` to `close`; both are for the loop's thread."""

    def __init__(self, send: Callable[[LinesLogged], None], turn: Turn) -> None:
        """`send`: on a thread of ours."""
        self._send = send
        self._lines = LineCollector(turn, time.monotonic)
        self._handler = LineHandler(self._lines, sys.stderr)
        self._streams = {name: getattr(sys, name) for name in ("stdout", "stderr")}
        self._tees = {
            name: Tee(stream, name, self._lines, self._handler)
            for name, stream in self._streams.items()
            if stream is not None
        }
        self._made_verbose = False
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="cutwater-logs", daemon=True)

    def start(self) -> None:
        for name, tee in self._tees.items():
            setattr(sys, name, tee)
        if logging.root.level == logging.WARNING and not logging.root.handlers:
            # Not set up in this process, and `logging.info` is what people try.
            self._made_verbose = True
            logging.root.setLevel(logging.INFO)
        logging.root.addHandler(self._handler)
        self._thread.start()

    def close(self) -> None:
        """Sends what is left. Blocks for a moment at most."""
        logging.root.removeHandler(self._handler)
        if self._made_verbose and logging.root.level == logging.INFO:
            logging.root.setLevel(logging.WARNING)
        for name, tee in self._tees.items():
            tee.finish()
            if getattr(sys, name) is tee:
                setattr(sys, name, self._streams[name])
        self._closed.set()
        self._lines.wake()
        self._thread.join(CLOSING_SECONDS)

    def _run(self) -> None:
        while not self._closed.is_set():
            self._lines.wait()
            self._closed.wait(SEND_SECONDS)
            collected = self._lines.take()
            if collected is not None:
                self._send(collected)


class LineHandler(logging.Handler):
    """Collects records, with their tracebacks."""

    def __init__(self, lines: LineCollector, stderr: TextIO | None) -> None:
        super().__init__()
        self._lines = lines
        self._stderr = stderr

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = self.format(record)
            self._lines.add(record.levelname, record.name, text, int(record.created * 1000))
            if record.levelno >= logging.WARNING and self._stderr is not None and logging.root.handlers == [self]:
                self._stderr.write(text + "\n")  # as Python does when there is no handler at all
        except Exception:
            self.handleError(record)

    def hears(self, record: Any) -> bool:
        """The record comes here as well."""
        logger: logging.Logger | None = logging.getLogger(getattr(record, "name", None))
        while logger is not None:
            if self in logger.handlers:
                return True
            logger = logger.parent if logger.propagate else None
        return False


class Tee:
    """A text stream whose lines are collected, too."""

    def __init__(self, inner: TextIO, name: str, lines: LineCollector, handler: LineHandler) -> None:
        self._inner = inner
        self._name = name
        self._lines = lines
        self._handler = handler
        #: The line that each thread has begun: `print` writes the text and the end of the line one after the other.
        self._begun: dict[int, str] = {}

    def write(self, text: str) -> int:
        written = self._inner.write(text)
        caller = sys._getframe(1)
        if caller.f_code is not _STREAM_HANDLER or not self._handler.hears(caller.f_locals.get("record")):
            self._collect(text)
        return written

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def finish(self) -> None:
        """What has no end of line yet."""
        for thread in list(self._begun):
            self._add(self._begun.pop(thread, ""))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def _collect(self, text: str) -> None:
        thread = threading.get_ident()
        begun = self._begun.pop(thread, "") + text
        if text == "\n":  # the end of a `print`
            self._add(begun[:-1])
            return
        if "\n" in text:
            *lines, begun = begun.split("\n")
            for line in lines:
                self._add(line)
        if len(begun) > LINE_CHARACTERS_MAX:
            self._add(begun)
        elif begun:
            # A progress bar writes over its line again and again.
            self._begun[thread] = begun if "\r" not in begun else begun.rpartition("\r")[2] or begun

    def _add(self, line: str) -> None:
        if line:
            self._lines.add(PRINTED, self._name, line, time.time_ns() // 1_000_000)

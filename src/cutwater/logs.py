"""What does a log line of a job look like?

Lines of the driver come from the logger "cutwater", those of the slots from "cutwater.slots". Every record has the
attributes `job`, `attempt`, `task` and `slot`, as far as they are known, for a formatter or a filter of yours.
"""

from __future__ import annotations

import json
import logging
import os
from datetime import UTC, datetime
from typing import Any, Final

from cutwater.errors import ConfigurationError
from cutwater.status import LogLine

logger = logging.getLogger("cutwater")
slots_logger = logging.getLogger("cutwater.slots")

FORMAT_VARIABLE: Final = "CUTWATER_LOG_FORMAT"
_CONTEXT: Final = ("job", "attempt", "task", "slot")


class JsonFormatter(logging.Formatter):
    """A JSON object a line: time, level, logger, message; job, attempt, task and slot where they are known; and
    exception, with its traceback, if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        line: LogLine | None = getattr(record, "line", None)
        told: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name if line is None else line.logger,
            "message": record.getMessage() if line is None else line.text,
        }
        told.update((name, getattr(record, name)) for name in _CONTEXT if getattr(record, name, ""))
        if record.exc_info:
            told["exception"] = self.formatException(record.exc_info)
        return json.dumps(told, ensure_ascii=False, default=str)


class TextFormatter(logging.Formatter):
    """For people: "cutwater: …", and "[task slot] …" for what a slot wrote."""

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        return text if getattr(record, "slot", "") else f"cutwater: {text}"


def listen() -> None:
    """Without any logging set up, lines go to standard error: as text, or as JSON if `CUTWATER_LOG_FORMAT` says so."""
    formatter = _formatter()
    if logger.hasHandlers() or logger.level != logging.NOTSET:
        return
    handler = logging.StreamHandler()
    handler.setFormatter(formatter)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)


def pass_on(line: LogLine, job: str) -> None:
    """Gives a slot's line to the driver's logging, as a record of the time when it was written."""
    level = logging.getLevelNamesMapping().get(line.level, logging.INFO)
    if not slots_logger.isEnabledFor(level):
        return
    where = " ".join(filter(None, (line.task, line.slot.partition(".")[0])))
    context = {"job": job, "attempt": line.attempt, "task": line.task, "slot": line.slot, "line": line}
    record = slots_logger.makeRecord(
        slots_logger.name, level, "", 0, "[%s] %s", (where, line.text), None, extra=context
    )
    record.created = line.at_ms / 1000
    record.msecs = line.at_ms % 1000
    slots_logger.handle(record)


def _formatter() -> logging.Formatter:
    wanted = os.environ.get(FORMAT_VARIABLE, "text")
    if wanted not in ("text", "json"):
        raise ConfigurationError(f"{FORMAT_VARIABLE} can't be {wanted!r}", hint='choose "text" or "json"')
    return JsonFormatter() if wanted == "json" else TextFormatter()

"""What does a log line look like, as text and as JSON?"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from cutwater import logs
from cutwater.errors import ConfigurationError
from cutwater.status import LogLine

LINE = LogLine(1, 1_700_000_000_123, "WARNING", "jobs.orders", "odd", "slot-2.17", attempt=3, task="map[1]")


class Kept(logging.Handler):
    def __init__(self, formatter: logging.Formatter) -> None:
        super().__init__()
        self.setFormatter(formatter)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@pytest.fixture
def logged() -> Iterator[Any]:
    """What a handler with this formatter writes."""
    added: list[Kept] = []
    level = logs.logger.level
    logs.logger.setLevel(logging.INFO)

    def keep(formatter: logging.Formatter) -> list[str]:
        added.append(Kept(formatter))
        logs.logger.addHandler(added[-1])
        return added[-1].lines

    yield keep
    for handler in added:
        logs.logger.removeHandler(handler)
    logs.logger.setLevel(level)


def test_a_slots_line_says_where_it_comes_from(logged: Any) -> None:
    lines = logged(logs.TextFormatter())
    logs.pass_on(LINE, "orders")
    logs.logger.info('job "orders": finished')
    assert lines == ["[map[1] slot-2] odd", 'cutwater: job "orders": finished']


def test_json_has_what_is_known_in_fields_of_its_own(logged: Any) -> None:
    lines = logged(logs.JsonFormatter())
    logs.pass_on(LINE, "orders")
    logs.logger.info("done", extra={"job": "orders"})
    first, second = map(json.loads, lines)
    assert first == {
        "time": "2023-11-14T22:13:20.123+00:00",
        "level": "WARNING",
        "logger": "jobs.orders",
        "message": "odd",
        "job": "orders",
        "attempt": 3,
        "task": "map[1]",
        "slot": "slot-2.17",
    }
    assert second.keys() == {"time", "level", "logger", "message", "job"}


def test_json_is_one_line_whatever_happened(logged: Any) -> None:
    lines = logged(logs.JsonFormatter())
    try:
        {}["missing"]
    except KeyError:
        logs.logger.exception("two\nlines")
    [line] = lines
    told = json.loads(line)
    assert "\n" not in line
    assert (told["message"], told["exception"].splitlines()[-1]) == ("two\nlines", "KeyError: 'missing'")


def test_a_level_that_is_not_wanted_is_not_passed_on(logged: Any) -> None:
    lines = logged(logs.TextFormatter())
    logs.logger.setLevel(logging.ERROR)
    logs.pass_on(LINE, "orders")
    assert lines == []


@contextmanager
def unheard() -> Iterator[None]:
    """No logging is set up. No fixture: pytest adds its own handlers behind those."""
    root, own = logging.root.handlers[:], logs.logger.handlers[:]
    level = logs.logger.level
    logging.root.handlers.clear()
    logs.logger.handlers.clear()
    logs.logger.setLevel(logging.NOTSET)
    yield
    logging.root.handlers[:], logs.logger.handlers[:] = root, own
    logs.logger.setLevel(level)


@pytest.mark.parametrize(("wanted", "formatter"), [("text", logs.TextFormatter), ("json", logs.JsonFormatter)])
def test_the_format_is_chosen_by_the_environment(monkeypatch: pytest.MonkeyPatch, wanted: str, formatter: type) -> None:
    monkeypatch.setenv(logs.FORMAT_VARIABLE, wanted)
    with unheard():
        logs.listen()
        formatters = [type(handler.formatter) for handler in logs.logger.handlers]
    assert formatters == [formatter]


def test_who_has_set_up_logging_keeps_it() -> None:
    with unheard():
        logging.root.addHandler(logging.NullHandler())
        logs.listen()
        found = list(logs.logger.handlers), logs.logger.level
    assert found == ([], logging.NOTSET)


def test_another_format_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(logs.FORMAT_VARIABLE, "xml")
    with pytest.raises(ConfigurationError, match="CUTWATER_LOG_FORMAT can't be 'xml'"):
        logs.listen()

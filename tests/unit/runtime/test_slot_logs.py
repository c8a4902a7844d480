# ruff: noqa: T201 (what is printed is the matter)
"""Does what code logs and prints reach the driver, and where it went before as well?"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from cutwater.protocol.ids import TaskId
from cutwater.runtime.messages import LinesLogged, LoggedLine
from cutwater.runtime.slot_logs import SlotLogs
from cutwater.runtime.turn import Turn

pytestmark = pytest.mark.threads


@contextmanager
def bare_root() -> Iterator[None]:
    """As in a process where logging was not set up. No fixture: pytest adds its own handlers behind those."""
    root = logging.root
    before, level = root.handlers[:], root.level
    root.handlers.clear()
    root.setLevel(logging.WARNING)
    try:
        yield
    finally:
        root.handlers[:] = before
        root.setLevel(level)


def sent_while(work: Callable[[], None], turn: Turn | None = None) -> list[LoggedLine]:
    sent: list[LinesLogged] = []
    logs = SlotLogs(sent.append, turn or Turn(2, TaskId("map", 0)))
    with bare_root():
        logs.start()
        try:
            work()
        finally:
            logs.close()
    return [line for message in sent for line in message.lines]


def told(lines: list[LoggedLine]) -> list[tuple[str, str, str]]:
    return [(line.level, line.logger, line.text) for line in lines]


def test_prints_arrive_line_by_line_and_still_go_to_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    def work() -> None:
        print("a", 1)
        print("b", end="")
        print("c\nd")
        print("to the error stream", file=sys.stderr)
        print("unfinished", end="")

    lines = sent_while(work)
    assert told(lines) == [
        ("PRINT", "stdout", "a 1"),
        ("PRINT", "stdout", "bc"),
        ("PRINT", "stdout", "d"),
        ("PRINT", "stderr", "to the error stream"),
        ("PRINT", "stdout", "unfinished"),
    ]
    assert {(line.attempt, line.task) for line in lines} == {(2, "map[0]")}
    assert capsys.readouterr() == ("a 1\nbc\nd\nunfinished", "to the error stream\n")


def test_log_records_arrive_with_level_and_logger_and_warnings_still_go_to_standard_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def work() -> None:
        logger = logging.getLogger("jobs.orders")
        logger.debug("not asked for")
        logger.info("order %d", 7)
        logger.warning("odd")

    assert told(sent_while(work)) == [("INFO", "jobs.orders", "order 7"), ("WARNING", "jobs.orders", "odd")]
    assert capsys.readouterr().err == "odd\n"


def test_a_logged_exception_has_its_traceback() -> None:
    def work() -> None:
        try:
            {}["missing"]
        except KeyError:
            logging.getLogger("jobs").exception("bad order")

    [line] = sent_while(work)
    first, *_, last = line.text.splitlines()
    assert (first, last) == ("bad order", "KeyError: 'missing'")


def test_a_handler_that_prints_does_not_make_two_lines_of_one(capsys: pytest.CaptureFixture[str]) -> None:
    def work() -> None:
        handler = logging.StreamHandler(sys.stderr)
        logging.root.addHandler(handler)
        logging.getLogger("jobs").warning("once")
        logging.root.removeHandler(handler)

    assert told(sent_while(work)) == [("WARNING", "jobs", "once")]
    assert capsys.readouterr().err == "once\n"


def test_what_only_a_handler_of_its_own_prints_arrives_as_printed() -> None:
    def work() -> None:
        logger = logging.getLogger("jobs.alone")
        logger.propagate = False
        logger.addHandler(logging.StreamHandler(sys.stderr))
        logger.warning("alone")

    assert told(sent_while(work)) == [("PRINT", "stderr", "alone")]


def test_a_progress_bar_is_its_last_state() -> None:
    def work() -> None:
        for percent in range(0, 101, 10):
            print(f"\r{percent} %", end="")
        print()

    assert told(sent_while(work)) == [("PRINT", "stdout", "100 %")]


def test_lines_of_two_threads_are_not_mixed_and_only_the_loops_are_its_tasks() -> None:
    def work() -> None:
        print("the loop's ", end="")
        other = threading.Thread(target=lambda: print("another thread's"))
        other.start()
        other.join()
        print("line")

    assert [(line.text, line.task) for line in sent_while(work)] == [
        ("another thread's", ""),
        ("the loop's line", "map[0]"),
    ]


def test_a_flood_from_several_threads_is_bounded_and_counted(capsys: pytest.CaptureFixture[str]) -> None:
    sent: list[LinesLogged] = []
    logs = SlotLogs(sent.append, Turn())
    logs.start()
    threads = [threading.Thread(target=lambda: [print("x" * 50) for _ in range(5000)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    logs.close()
    kept = sum(len(message.lines) for message in sent)
    dropped = sum(message.dropped for message in sent)
    assert kept < 5000
    assert abs(kept + dropped - 20_000) < 20, "a count may be off by a few, among threads"
    assert len(capsys.readouterr().out.splitlines()) == 20_000


def test_afterwards_everything_is_as_it_was() -> None:
    with bare_root():
        before = sys.stdout, sys.stderr, [], logging.root.level
        logs = SlotLogs(lambda message: None, Turn())
        logs.start()
        logs.close()
        assert (sys.stdout, sys.stderr, logging.root.handlers, logging.root.level) == before

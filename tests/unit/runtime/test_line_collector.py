"""Which of a slot's lines are sent, and what becomes of a flood?"""

from __future__ import annotations

import pytest

from cutwater.protocol.ids import TaskId
from cutwater.runtime.line_collector import (
    CHARACTERS_AT_ONCE_MAX,
    LINE_CHARACTERS_MAX,
    LINES_AT_ONCE_MAX,
    LINES_PER_SECOND,
    LineCollector,
)
from cutwater.runtime.messages import LinesLogged, LoggedLine, decode_from_slot, encode
from cutwater.runtime.turn import Turn


class Rig:
    def __init__(self) -> None:
        self.now_seconds = 100.0
        self.turn = Turn(attempt=3, task=TaskId("map", 1))
        self.lines = LineCollector(self.turn, lambda: self.now_seconds)

    def write(self, count: int, text: str = "x") -> None:
        for _ in range(count):
            self.lines.add("PRINT", "stdout", text, 5)

    def taken(self) -> tuple[int, int]:
        """How many lines, and how many were dropped."""
        taken = self.lines.take()
        return (0, 0) if taken is None else (len(taken.lines), taken.dropped)


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_a_line_knows_the_task_whose_turn_it_was(rig: Rig) -> None:
    rig.lines.add("INFO", "jobs.orders", "hello", 5)
    rig.turn.task = None
    rig.lines.add("INFO", "jobs.orders", "between the turns", 6)
    assert rig.lines.take() == LinesLogged(
        (
            LoggedLine(5, "INFO", "jobs.orders", "hello", 3, "map[1]"),
            LoggedLine(6, "INFO", "jobs.orders", "between the turns", 3, ""),
        )
    )


def test_each_line_is_taken_once(rig: Rig) -> None:
    rig.write(2)
    assert (rig.taken(), rig.lines.take()) == ((2, 0), None)


def test_of_a_flood_the_first_lines_are_kept_and_the_others_counted(rig: Rig) -> None:
    rig.write(100_000)
    assert rig.taken() == (LINES_AT_ONCE_MAX, 100_000 - LINES_AT_ONCE_MAX)


def test_a_flood_that_goes_on_gets_so_many_lines_a_second(rig: Rig) -> None:
    rig.write(LINES_AT_ONCE_MAX)
    rig.taken()
    rig.now_seconds += 1
    rig.write(10_000)
    assert rig.taken() == (LINES_PER_SECOND, 10_000 - LINES_PER_SECOND)


def test_long_lines_use_up_what_may_be_sent_too(rig: Rig) -> None:
    rig.write(LINES_AT_ONCE_MAX, "x" * LINE_CHARACTERS_MAX)
    kept = CHARACTERS_AT_ONCE_MAX // LINE_CHARACTERS_MAX
    assert rig.taken() == (kept, LINES_AT_ONCE_MAX - kept)


def test_what_nobody_takes_does_not_grow_without_end(rig: Rig) -> None:
    for _ in range(100):
        rig.write(LINES_AT_ONCE_MAX)
        rig.now_seconds += 60
    lines, dropped = rig.taken()
    assert (lines <= 2 * LINES_AT_ONCE_MAX, lines + dropped) == (True, 100 * LINES_AT_ONCE_MAX)


def test_a_line_that_is_too_long_keeps_both_ends(rig: Rig) -> None:
    rig.lines.add("ERROR", "jobs", "Traceback" + "." * 100_000 + "KeyError: 7", 5)
    taken = rig.lines.take()
    assert taken is not None
    [line] = taken.lines
    assert line.text.startswith("Traceback...")
    assert line.text.endswith("...KeyError: 7")
    assert "(95,924 characters)" in line.text
    assert len(line.text) < LINE_CHARACTERS_MAX + 50


def test_any_text_gets_over_the_wire(rig: Rig) -> None:
    rig.lines.add("INFO", "jobs", "half a pair: \ud83d, a whole one: 🦆", 5)
    taken = rig.lines.take()
    assert taken is not None
    assert decode_from_slot(encode(taken)) == taken
    assert taken.lines[0].text == "half a pair: \\ud83d, a whole one: 🦆"

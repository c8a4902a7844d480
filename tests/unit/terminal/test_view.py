"""What a job looks like in a terminal."""

from __future__ import annotations

import io
from dataclasses import replace

from rich.console import Console, RenderableType

from cutwater.demo.view import render
from cutwater.protocol.lifecycle import JobState
from cutwater.terminal.figures import Shares
from cutwater.terminal.view import bar, small_view, whole_view

from .statuses import orders


def shown(view: RenderableType, *, width: int = 140) -> list[str]:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    console.print(view)
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_the_whole_view_has_rates_operators_tasks_and_checkpoints() -> None:
    lines = shown(whole_view(orders()))
    assert lines[0] == "orders  RUNNING  attempt 2, 5 min 12 s, parallelism 2  1 restart"
    assert lines[1] == "900 records/s read, 70 written; lag 1,400"
    assert any(line.startswith("└ map[parse]            10,000   8,000   900    800   75%") for line in lines)
    (first,) = [line for line in lines if line.startswith("in[0]")]
    assert first.split() == ["in[0]", "slot-1.0", "1.23k", "45.6k", "█" * 10, "95%", "25%", "3", "700"]
    assert next(line for line in lines if "declined" in line).endswith("declined: in[0] had ended")


def test_tasks_are_in_the_order_of_the_graph() -> None:
    names = [line.split("[")[0] for line in shown(whole_view(orders())) if "slot-1.0" in line]
    assert names == ["in", "in", "count", "count"]


def test_where_not_all_tasks_fit_the_busiest_are_shown() -> None:
    lines = shown(whole_view(orders(), height=20))
    assert [line.split()[0] for line in lines if "slot-1.0" in line] == ["in[0]", "in[1]"]
    assert "… 2 more" in lines
    assert len(lines) <= 20


def test_the_small_view_is_three_lines_and_the_newest_warning() -> None:
    assert shown(small_view(orders())) == [
        "orders  RUNNING  attempt 2, 5 min 12 s, parallelism 2  1 restart",
        "900 records/s read, 70 written; lag 1,400",
        "98 checkpoints (the newest took 34 ms, 12.1 kB), 1 failed, savepoint 9 under way (3 of 4 tasks)",
        "warning: a warning of [bold]markup[/bold]\\x1b[2J",
    ]


def test_what_a_job_waits_for_is_told() -> None:
    waiting = replace(orders(), state=JobState.WAITING_FOR_SLOTS, waiting_for="1 of 2 slots")
    assert shown(small_view(waiting))[:2] == [
        "orders  WAITING FOR SLOTS  attempt 2, 5 min 12 s, parallelism 2  1 restart",
        "waiting for 1 of 2 slots",
    ]


def test_a_bar_is_never_longer_than_its_cells() -> None:
    assert bar(Shares(0.31, 0.22)).plain == "███▒▒·····  31%  22%"
    assert bar(Shares(1.2, 0.5)).plain.startswith("█" * 10 + " ")


def test_a_narrow_terminal_shows_whole_figures() -> None:
    lines = shown(whole_view(orders()), width=80)
    assert "in[0]     slot-1.0  1.23k  45.6k  ██████████  95%  25%       3  700" in lines
    assert not any("…" in line for line in lines)


def test_the_demo_shows_the_same_with_its_kills() -> None:
    lines = shown(render(orders(), ["  3.0 s  kill -9 77"], elapsed_seconds=4.0))
    assert any("RUNNING" in line for line in lines)
    assert any("kill -9 77" in line for line in lines)

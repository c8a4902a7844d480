"""A user's own job under faults."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import cutwater as cw
from cutwater.cli.main import app
from cutwater.errors import ConfigurationError, SimulationBrokenError
from cutwater.testing import LocalLauncher, simulating, stand_in
from cutwater.testing.stand_ins import StandInSource, simulated

pytestmark = pytest.mark.simulation

ORDERS = [(f"customer {number % 5}", number) for number in range(200)]


class InAField:
    """Numbers the orders of each customer, and forgets with every restart how far it was."""

    def open(self, context: Any) -> None:
        self._seen: dict[str, int] = {}

    def process(self, order: Any, context: Any) -> Any:
        self._seen[order[0]] = self._seen.get(order[0], 0) + 1
        yield order[0], self._seen[order[0]]


class InState:
    """The same, and remembers."""

    def open(self, context: Any) -> None:
        self._seen = context.value_state("seen", 0)

    def process(self, order: Any, context: Any) -> Any:
        self._seen.update(self._seen.value() + 1)
        yield order[0], self._seen.value()


def numbered(launcher: LocalLauncher, function: Callable[[], Any], **options: Any) -> list[Any]:
    env = cw.Environment(parallelism=2, launcher=launcher, **options)
    orders = env.from_collection(ORDERS).key_by(lambda order: order[0])
    return orders.process(function(), uid="numbering").execute_and_collect()


def test_state_in_a_field_is_found_and_the_error_says_what_differs() -> None:
    broken: list[SimulationBrokenError] = []
    for seed in range(30):
        try:
            numbered(LocalLauncher(faults=True, seed=seed), InAField)
        except SimulationBrokenError as error:
            broken.append(error)
    assert len(broken) >= 3
    assert "misses ('customer" in str(broken[0])
    assert "process(InAField)" in str(broken[0])


@pytest.mark.parametrize("mode", ["exactly_once", "at_least_once", "none"])
def test_a_job_with_keyed_state_recovers_by_itself_and_gives_its_result(mode: str) -> None:
    for seed in range(10):
        result = numbered(LocalLauncher(faults=True, seed=seed), InState, checkpoints=cw.Checkpoints(mode=mode))
        assert len(result) == len(ORDERS)


def test_a_typed_job_with_event_time_and_windows_holds() -> None:
    for seed in range(10):
        env = cw.Environment(parallelism=2, launcher=LocalLauncher(faults=True, seed=seed))
        source = cw.sources.generator(lambda number: (number % 3, number), count=120)
        timed = env.from_source(source).assign_timestamps(lambda row: row[1], cw.watermarks.bounded("50ms"))
        counts = timed.key_by(lambda row: row[0]).window(cw.tumbling("20ms")).count().execute_and_collect()
        assert counts


def test_an_output_that_depends_on_the_order_of_tasks_has_no_right_answer() -> None:
    env = cw.Environment(parallelism=3, launcher=LocalLauncher(faults=True))
    tagged = env.from_collection(range(200)).rebalance().key_by(lambda number: number % 2)
    with pytest.raises(ConfigurationError, match="differs between two runs"):
        tagged.process(InOrder()).execute_and_collect()


class InOrder:
    def open(self, context: Any) -> None:
        self._last = context.value_state("last", -1)

    def process(self, number: Any, context: Any) -> Any:
        yield number, self._last.value()
        self._last.update(number)


def test_a_failure_of_the_job_itself_is_shown_as_such() -> None:
    env = cw.Environment(launcher=LocalLauncher(faults=True), restart=cw.restart.none())
    with pytest.raises(cw.errors.CutwaterError, match="failed on a record"):
        env.from_collection([1, 0]).map(lambda number: 1 / number).execute_and_collect()


def test_a_stand_in_takes_the_place_of_a_source_only_while_it_is_simulated() -> None:
    socket = cw.sources.socket("localhost", 9)
    assert stand_in(socket, ["a"]) is socket
    with simulated():
        assert simulating()
        assert isinstance(stand_in(socket, ["a"]), StandInSource)
    assert not simulating()


SCRIPT = """
import cutwater as cw
from cutwater.testing import stand_in

env = cw.Environment(parallelism=2)
lines = env.from_source({source}, uid="lines")
words = lines.flat_map(str.split).key_by(lambda word: word)
words.count().sink_to(cw.sinks.text("OUT"), uid="out")
env.execute("words")
"""
LINES = ["to be or", "not to be"] * 10


def script(tmp_path: Path, source: str) -> Path:
    path = tmp_path / "job.py"
    path.write_text(SCRIPT.format(source=source).replace("OUT", str(tmp_path / "out")))
    return path


def test_a_script_is_simulated_with_a_stand_in_of_its_own_and_writes_nothing(tmp_path: Path) -> None:
    path = script(tmp_path, f'stand_in(cw.sources.socket("localhost", 9), records={LINES!r})')
    result = CliRunner().invoke(app, ["simulate", str(path), "--seeds", "4"])
    assert result.exit_code == 0, result.output
    assert "4 seeds in" in result.output
    assert "every invariant held" in result.output
    assert "kill slot" in result.output
    assert not list(tmp_path.glob("out/*"))


def test_a_script_is_simulated_with_a_file_of_records(tmp_path: Path) -> None:
    path = script(tmp_path, 'cw.sources.socket("localhost", 9)')
    records = tmp_path / "lines.txt"
    records.write_text("\n".join(LINES))
    result = CliRunner().invoke(app, ["simulate", str(path), "--seed", "3", "--stand-in", f"lines={records}"])
    assert result.exit_code == 0, result.output
    assert "seed 3, job words: every invariant held" in result.output


def test_a_source_without_an_end_asks_for_a_stand_in(tmp_path: Path) -> None:
    path = script(tmp_path, 'cw.sources.socket("localhost", 9)')
    result = CliRunner().invoke(app, ["simulate", str(path)])
    assert result.exit_code == 2
    assert "--stand-in lines=records.jsonl" in result.output

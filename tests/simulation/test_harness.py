"""Jobs written with the public API, run without Spark."""

from __future__ import annotations

import sys

import pytest

from cutwater.api.environment import Environment
from cutwater.errors import JobFailedError
from cutwater.protocol.restart import none
from cutwater.testing.harness import LocalLauncher

pytestmark = pytest.mark.simulation


@pytest.mark.parametrize("seed", range(5))
def test_a_job_runs_to_its_end_in_memory(seed: int) -> None:
    env = Environment(parallelism=2, launcher=LocalLauncher(seed=seed))
    words = env.from_collection(["to be or", "not to be"]).flat_map(str.split)
    counts = words.key_by(lambda word: word).count().execute_and_collect()
    assert sorted(counts) == [("be", 1), ("be", 2), ("not", 1), ("or", 1), ("to", 1), ("to", 2)]


def test_a_failure_of_a_function_names_its_record() -> None:
    env = Environment(launcher=LocalLauncher(), restart=none())
    with pytest.raises(JobFailedError, match="failed on a record"):
        env.from_collection([1, 0]).map(lambda number: 1 / number).execute_and_collect()


def test_sys_exit_in_a_function_is_an_error_of_that_function() -> None:
    env = Environment(launcher=LocalLauncher(), restart=none())
    with pytest.raises(JobFailedError) as failed:
        env.from_collection([1, 2]).map(lambda n: sys.exit("bad record") if n == 2 else n).execute_and_collect()
    cause = str(failed.value.__cause__)
    assert 'of operator "map" failed on a record' in cause
    assert "SystemExit: bad record" in cause
    assert "record: 2" in cause
    assert f"at {__file__}" in cause


def test_sys_exit_wherever_else_in_a_task_names_the_line() -> None:
    env = Environment(launcher=LocalLauncher(), restart=none())
    numbers = env.from_collection([1, 2]).key_by(lambda n: 0).reduce(lambda total, n: sys.exit(3))
    with pytest.raises(JobFailedError, match=r"a function in task .* called sys\.exit") as failed:
        numbers.execute_and_collect()
    cause = str(failed.value.__cause__)
    assert "SystemExit: 3" in cause
    assert f"at {__file__}" in cause

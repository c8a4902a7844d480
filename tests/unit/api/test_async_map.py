"""What does `async_map` refuse when the job is written, and what does it promise?"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import cutwater as cw
from cutwater.testing.harness import LocalLauncher


async def answer(n: int) -> int:
    await asyncio.sleep(0.02)
    return n + 1


def numbers() -> cw.DataStream:
    return cw.Environment(launcher=LocalLauncher()).from_collection([1, 2, 3])


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"capacity": 0}, "capacity must be a whole number from 1, not 0"),
        ({"capacity": True}, "capacity must be a whole number from 1, not True"),
        ({"timeout": "0s"}, "timeout must be longer than nothing"),
        ({"timeout": 5}, "timeout has no unit"),
        ({"retry": 3}, "3 doesn't say when to retry"),
        ({"on_error": "ignore"}, "on_error of async_map can't be 'ignore'"),
    ],
)
def test_what_makes_no_sense_is_refused(settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(cw.errors.ConfigurationError, match=reason):
        numbers().async_map(answer, **settings)


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(cw.errors.UserError, match="async_map needs an async function, not 7"):
        numbers().async_map(7)


def test_results_are_python_values_in_order() -> None:
    assert numbers().async_map(answer).execute_and_collect() == [2, 3, 4]


def test_a_coroutine_that_is_too_slow_fails_in_virtual_time() -> None:
    with pytest.raises(cw.errors.JobFailedError, match="TimeoutError: no result within 10ms"):
        numbers().async_map(answer, timeout="10ms").execute_and_collect()


def test_dead_letters_of_an_operator_that_has_none_are_refused() -> None:
    with pytest.raises(cw.errors.GraphError, match="errors"):
        numbers().async_map(answer).side_output("errors")

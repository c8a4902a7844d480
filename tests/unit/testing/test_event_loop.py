"""How does time pass for a coroutine that runs in virtual time?"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from cutwater.errors import UserError
from cutwater.testing.simulation.event_loop import JumpingLoop


@pytest.fixture
def loop() -> Iterator[JumpingLoop]:
    made = JumpingLoop()
    yield made
    made.close()


def test_a_coroutine_that_sleeps_takes_as_long_and_costs_nothing(loop: JumpingLoop) -> None:
    loop.finish(asyncio.sleep(3600))
    assert loop.now_seconds == 3600


def test_what_comes_first_is_first(loop: JumpingLoop) -> None:
    seen: list[int] = []

    async def later(seconds: int) -> None:
        await asyncio.sleep(seconds)
        seen.append(seconds)

    async def all_of_them() -> None:
        await asyncio.gather(later(3), later(1), later(2))

    loop.finish(all_of_them())
    assert (seen, loop.now_seconds) == ([1, 2, 3], 3)


@pytest.mark.threads
def test_no_time_is_skipped_while_a_thread_works(loop: JumpingLoop) -> None:
    async def with_a_thread() -> int:
        async with asyncio.timeout(60):
            return await asyncio.to_thread(sum, [1, 2])

    assert loop.finish(with_a_thread()) == 3


def test_a_loop_runs_also_inside_another(loop: JumpingLoop) -> None:
    other = JumpingLoop()

    async def outer() -> int:
        other.finish(asyncio.sleep(5))
        await asyncio.sleep(1)
        return 7

    assert (loop.finish(outer()), other.now_seconds, loop.now_seconds) == (7, 5, 1)
    other.close()


def test_to_wait_for_what_never_comes_is_an_error(loop: JumpingLoop) -> None:
    async def stuck() -> None:
        await asyncio.Event().wait()

    with pytest.raises(UserError, match="waits for something that never comes"):
        loop.finish(stuck())

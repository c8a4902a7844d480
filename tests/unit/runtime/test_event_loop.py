"""Do coroutines run elsewhere, do their results come back together, and does the thread end?"""

from __future__ import annotations

import asyncio
import queue
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from cutwater.runtime.event_loop import EventLoopThread

pytestmark = pytest.mark.threads


class Owner:
    """Keeps what is posted to its thread."""

    def __init__(self) -> None:
        self.posted: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.finished: list[tuple[Any, Any, Any]] = []
        self.loop = EventLoopThread(self.posted.put, self.finished.extend)

    def wait_for(self, count: int) -> None:
        while len(self.finished) < count:
            self.posted.get(timeout=30)()


@pytest.fixture
def owner() -> Iterator[Owner]:
    made = Owner()
    yield made
    if made.loop._thread.is_alive():
        made.loop.close(None)


async def value(number: int) -> int:
    return number


async def fail(error: BaseException) -> None:
    raise error


async def where() -> str:
    return threading.current_thread().name


def test_calls_run_on_another_thread(owner: Owner) -> None:
    owner.loop.start([("call", where)])
    owner.wait_for(1)
    assert owner.finished == [("call", "cutwater-event-loop", None)]


def test_calls_that_wait_for_each_other_run_at_the_same_time(owner: Owner) -> None:
    barrier = asyncio.Barrier(50)
    owner.loop.start([(number, barrier.wait) for number in range(50)])
    owner.wait_for(50)
    assert {call for call, _, error in owner.finished if error is None} == set(range(50))


def test_results_of_one_turn_come_back_together(owner: Owner) -> None:
    owner.loop.start([(number, partial(value, number)) for number in range(100)])
    owner.posted.get(timeout=30)()
    assert [result for _, result, _ in owner.finished] == list(range(100))


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3)], ids=["ValueError", "sys.exit"])
def test_a_failure_comes_back_and_the_loop_lives_on(owner: Owner, error: BaseException) -> None:
    owner.loop.start([("fails", partial(fail, error))])
    owner.wait_for(1)
    owner.loop.start([("lives", partial(value, 1))])
    owner.wait_for(2)
    assert owner.finished == [("fails", None, error), ("lives", 1, None)]


def test_closing_interrupts_what_is_under_way_and_makes_a_last_call(owner: Owner) -> None:
    seen: list[str] = []
    begun = threading.Event()

    async def endless() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("interrupted")
            raise

    async def last() -> None:
        seen.append("last")

    owner.loop.start([("endless", endless)])
    begun.wait(30)
    owner.loop.close(last)
    assert (seen, owner.posted.empty(), owner.loop._thread.is_alive()) == (["interrupted", "last"], True, False)


def test_a_last_call_that_fails_is_told_and_the_thread_ends(owner: Owner) -> None:
    with pytest.raises(TimeoutError, match="of its own"):
        owner.loop.close(partial(fail, TimeoutError("of its own")))
    assert not owner.loop._thread.is_alive()


def test_what_exits_the_process_is_the_owners_business(owner: Owner) -> None:
    async def leave() -> None:
        sys.exit("enough")

    owner.loop.start([("leaves", leave)])
    owner.wait_for(1)
    assert isinstance(owner.finished[0][2], SystemExit)

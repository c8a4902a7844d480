"""What leaves an operator whose records wait for an answer, when, and what does it remember?"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from cutwater.batches import times_of
from cutwater.dead_letters import ERRORS, OnError
from cutwater.errors import UserError, UserFunctionError
from cutwater.operators.async_map import AsyncMapOperator, CallRules
from cutwater.protocol.ids import CheckpointId
from cutwater.retry import Retry, fixed


async def doubled(record: Any) -> Any:
    return getattr(record, "n", record) * 2


async def eighth(n: int) -> int:
    return 8 // n


async def slow(n: int) -> int:
    await asyncio.sleep(60)
    return n


async def changed(record: dict[str, int]) -> dict[str, int]:
    record["n"] += 1
    return record


class Flaky:
    """Fails so often."""

    def __init__(self, failures: int) -> None:
        self._failures = failures

    async def __call__(self, n: int) -> int:
        self._failures -= 1
        if self._failures >= 0:
            raise ConnectionError("try again")
        return n


class Session:
    """Has something to open and to close."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def open(self, context: Any) -> None:
        self.seen.append(f"open {context.subtask} of {context.parallelism}")

    async def process(self, n: int) -> int:
        self.seen.append(f"process {n}")
        return n

    async def close(self) -> None:
        self.seen.append("close")


@pytest.fixture
def started(task: Any) -> Iterator[Callable[..., Any]]:
    """Makes the task of an operator, and closes its event loop in the end."""
    made: list[Any] = []

    def start(
        function: Any = doubled,
        *,
        capacity: int = 100,
        timeout_seconds: float | None = None,
        ordered: bool = True,
        retry: Retry | None = None,
        on_error: OnError = "fail",
        lists: dict[str, list[bytes]] | None = None,
    ) -> Any:
        rules = CallRules(capacity, timeout_seconds, ordered, retry, on_error)
        made.append(task(AsyncMapOperator(function, rules), lists=lists))
        made[-1].operator.on_start()
        return made[-1]

    yield start
    for one in made:
        one.operator.close()


def timed(chain: Any) -> list[tuple[Any, int]]:
    return [pair for batch in chain.batches for pair in zip(batch.values, times_of(batch).tolist(), strict=True)]


# Results.


def test_results_leave_in_the_order_of_the_records(started: Any) -> None:
    chain = started()
    chain.feed(1, 2, 3)
    chain.loop.finish(2)
    early = chain.output
    chain.loop.finish()
    assert (early, chain.output) == ([], [2, 4, 6])


def test_results_leave_as_they_come(started: Any) -> None:
    chain = started(ordered=False)
    chain.feed(1, 2, 3)
    chain.loop.finish(2)
    early = chain.output
    chain.loop.finish()
    assert (early, chain.output) == ([6], [2, 4])


def test_results_that_come_together_leave_as_one_batch_at_their_times(started: Any) -> None:
    chain = started()
    chain.feed_at((1, 10), (2, 20))
    chain.feed_at((3, 30))
    chain.loop.finish()
    assert (len(chain.batches), timed(chain)) == (1, [(2, 10), (4, 20), (6, 30)])


def test_the_function_sees_rows_of_a_typed_stream(started: Any) -> None:
    chain = started()
    chain.operator.process(pa.record_batch({"n": [1, 2]}), 0)
    chain.loop.finish()
    assert chain.output == [2, 4]


# Capacity.


def test_no_more_calls_are_under_way_than_the_capacity_says(started: Any) -> None:
    chain = started(capacity=2)
    chain.feed(1, 2, 3, 4, 5)
    seen = [len(chain.loop)]
    chain.loop.finish(0)
    assert [*seen, len(chain.loop), chain.output] == [2, 2, [2]]


def test_a_result_that_waits_for_its_turn_takes_up_room(started: Any) -> None:
    chain = started(capacity=2)
    chain.feed(1, 2, 3)
    chain.loop.finish(1)
    assert len(chain.loop) == 1


def test_there_is_room_while_fewer_records_are_inside_than_the_capacity_says(started: Any) -> None:
    chain = started(capacity=2)
    chain.feed(1)
    room = [chain.operator.has_room()]
    chain.feed(2)
    room.append(chain.operator.has_room())
    chain.loop.finish()
    assert [*room, chain.operator.has_room()] == [True, False, True]


def test_a_barrier_finds_room(started: Any) -> None:
    chain = started(capacity=2)
    chain.feed(1, 2)
    assert (chain.operator.has_room(), chain.operator.has_room_ahead_of_barrier()) == (False, True)


# Watermarks, and the end.


@pytest.mark.parametrize("ordered", [True, False])
def test_a_watermark_leaves_behind_the_records_it_came_behind(started: Any, ordered: bool) -> None:
    chain = started(ordered=ordered)
    left: list[Any] = []
    chain.feed(1)
    chain.operator.in_turn(lambda: left.append(chain.output))
    chain.feed(2)
    chain.loop.finish(1)
    early = chain.output
    chain.loop.finish()
    assert (early, left, chain.output) == ([], [[2]], [4])


def test_a_watermark_waits_for_nothing_when_nothing_is_under_way(started: Any) -> None:
    left: list[str] = []
    started().operator.in_turn(lambda: left.append("watermark"))
    assert left == ["watermark"]


def test_the_operator_is_drained_when_all_results_have_left(started: Any) -> None:
    chain = started()
    chain.feed(1)
    seen = [chain.operator.drained()]
    chain.loop.finish()
    assert [*seen, chain.operator.drained()] == [False, True]


# Snapshots.


@pytest.mark.parametrize("ordered", [True, False])
def test_records_whose_results_have_not_left_are_called_for_again(started: Any, ordered: bool) -> None:
    chain = started(capacity=3, ordered=ordered)
    chain.feed_at((1, 10), (2, 20), (3, 30), (4, 40))
    chain.loop.finish(0)
    restored = started(lists=chain.freeze())
    restored.feed_at((5, 50))
    restored.loop.finish()
    assert timed(restored) == [(4, 20), (6, 30), (8, 40), (10, 50)]


def test_what_has_left_is_not_remembered(started: Any) -> None:
    chain = started()
    chain.feed(1, 2)
    chain.loop.finish()
    assert chain.freeze() == {}


def test_a_snapshot_holds_records_as_they_came(started: Any) -> None:
    chain = started(changed)
    chain.feed({"n": 1}, {"n": 5})
    chain.loop.finish(1)
    restored = started(lists=chain.freeze(), function=changed)
    restored.loop.finish()
    assert restored.output == [{"n": 2}, {"n": 6}]


def test_restored_records_are_not_called_for_before_their_results_could_leave(task: Any, started: Any) -> None:
    before = started()
    before.feed(1)
    rules = CallRules(100, None, True, None, "fail")
    chain = task(AsyncMapOperator(Session(), rules), lists=before.freeze())
    chain.loop.finish()  # opens the session
    under_way = len(chain.loop)
    chain.operator.on_start()
    calls = under_way, len(chain.loop)
    chain.operator.close()
    assert calls == (0, 1)


# Failures.


def test_a_failed_call_fails_the_job_with_record_and_line(started: Any) -> None:
    chain = started(eighth)
    chain.feed(4, 0)
    with pytest.raises(UserFunctionError, match='"eighth" of operator "parse" failed on a record: Zero') as failure:
        chain.loop.finish(1)
    detail = failure.value.detail
    assert ("record: 0" in detail, "test_async_map.py" in detail, "in eighth" in detail) == (True, True, True)


def test_a_call_that_takes_too_long_fails_where_it_was_waiting(started: Any) -> None:
    chain = started(slow, timeout_seconds=5.0)
    chain.feed(7)
    with pytest.raises(UserFunctionError, match="TimeoutError: no result within 5s") as failure:
        chain.loop.finish()
    assert ("record: 7" in failure.value.detail, "in slow" in failure.value.detail) == (True, True)


def test_a_call_that_is_in_time_is_not_interrupted(started: Any) -> None:
    chain = started(slow, timeout_seconds=61.0)
    chain.feed(7)
    chain.loop.finish()
    assert (chain.output, chain.loop.now_seconds) == ([7], 60.0)


def test_a_timeout_of_the_function_itself_is_told_as_it_is(started: Any) -> None:
    async def gives_up(n: int) -> None:
        raise TimeoutError("the server was busy")

    chain = started(gives_up, timeout_seconds=5.0)
    chain.feed(7)
    with pytest.raises(UserFunctionError, match="TimeoutError: the server was busy"):
        chain.loop.finish()


def test_a_failed_record_is_skipped_and_counted(started: Any) -> None:
    chain = started(eighth, on_error="skip")
    chain.feed(4, 0, 2)
    chain.loop.finish()
    assert (chain.output, chain.side, chain.metrics.skipped_records) == ([2, 4], [], 1)


def test_a_dead_letter_leaves_in_the_turn_of_its_record(started: Any) -> None:
    chain = started(eighth, on_error="dead_letter")
    chain.feed(4, 0)
    chain.loop.finish(1)
    early = list(chain.side)
    chain.loop.finish()
    ((tag, (letter,)),) = chain.side
    assert (early, tag, letter.record, letter.error, chain.metrics.dead_letters) == (
        [],
        ERRORS,
        0,
        "ZeroDivisionError: integer division or modulo by zero",
        1,
    )


def test_a_call_that_failed_is_tried_again(started: Any) -> None:
    chain = started(Flaky(2), retry=fixed(attempts=3, delay="10s"))
    chain.feed(7)
    chain.loop.finish()
    assert (chain.output, chain.loop.now_seconds) == ([7], 20.0)


def test_a_call_is_not_tried_more_often_than_was_said(started: Any) -> None:
    chain = started(Flaky(3), retry=fixed(attempts=3, delay="10s"))
    chain.feed(7)
    with pytest.raises(UserFunctionError, match="ConnectionError: try again"):
        chain.loop.finish()


def test_a_call_that_took_too_long_is_tried_again(started: Any) -> None:
    chain = started(slow, timeout_seconds=5.0, retry=fixed(attempts=2, delay="1s"), on_error="skip")
    chain.feed(7)
    chain.loop.finish()
    assert (chain.output, chain.loop.now_seconds) == ([], 11.0)


def test_a_function_that_is_not_asynchronous_is_refused(started: Any) -> None:
    chain = started(abs)
    chain.feed(-7)
    with pytest.raises(UserFunctionError, match="returned what can't be awaited"):
        chain.loop.finish()


def test_a_class_is_refused_with_a_hint() -> None:
    with pytest.raises(UserError, match=r"is a class, not a function"):
        AsyncMapOperator(Session, CallRules(1, None, True, None, "fail"))


# A session.


def test_a_session_is_opened_before_the_first_call_and_closed_behind_the_last(started: Any) -> None:
    session = Session()
    chain = started(session)
    chain.feed(1)
    under_way = [len(chain.loop)]
    chain.loop.finish()
    chain.loop.finish()
    chain.operator.close()
    assert (under_way, session.seen) == ([1], ["open 0 of 1", "process 1", "close"])


def test_a_session_that_can_not_be_opened_fails_the_job(started: Any) -> None:
    class Broken(Session):
        async def open(self, context: Any) -> None:
            raise ConnectionError("nobody there")

    chain = started(Broken())
    with pytest.raises(UserFunctionError, match="failed when it was opened: ConnectionError: nobody there"):
        chain.loop.finish()


def test_results_that_come_after_the_end_are_dropped(started: Any) -> None:
    chain = started()
    chain.feed(1)
    done = chain.loop._done
    ((call, _),) = chain.loop._under_way
    chain.operator.close()
    done([(call, 2, None)])
    assert (chain.output, chain.operator.freeze(CheckpointId(1)).lists != ()) == ([], True)

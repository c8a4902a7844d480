"""What leaves an operator when the user's function fails on some records, and what is counted?"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from cutwater.batches import Batch, times_of
from cutwater.dead_letters import ERRORS, DeadLetter
from cutwater.errors import InternalError, StorageError, UserFunctionError
from cutwater.graph.keys import KeySelector
from cutwater.operators.connect import BroadcastConnectOperator, ConnectOperator
from cutwater.operators.contract import Operator
from cutwater.operators.guarded_rows import (
    GuardedFilterOperator,
    GuardedFlatMapOperator,
    GuardedKeyOperator,
    GuardedMapOperator,
)
from cutwater.operators.guarded_timestamps import GuardedTimestampsOperator
from cutwater.operators.process import KeyedProcessOperator, ProcessOperator
from cutwater.operators.timestamps import TimestampSelector
from cutwater.protocol.event_time import WatermarkStrategy
from cutwater.protocol.watermarks import MAX_TIMESTAMP_MS

TYPED = pa.record_batch({"n": [4, 0, 2]})
ITSELF = KeySelector(function=lambda record: record)
MONOTONOUS = WatermarkStrategy("bounded", 0)


def number_of(record: Any) -> int:
    return int(getattr(record, "n", record))


def eighth(record: Any) -> int:
    return 8 // number_of(record)


def eighths(record: Any) -> Iterator[int]:
    yield 8
    yield 8 // number_of(record)


def emit_eighth(record: Any, context: Any) -> Any:
    context.emit(8)
    context.side_output("seen", number_of(record))
    yield 8 // number_of(record)


#: How to make the operator of a function and a policy, and a function that fails on 0.
OPERATORS: dict[str, tuple[Callable[..., Operator], Callable[..., Any]]] = {
    "map": (GuardedMapOperator, eighth),
    "flat_map": (GuardedFlatMapOperator, eighths),
    "filter": (GuardedFilterOperator, eighth),
    "key_by": (lambda function, policy: GuardedKeyOperator(KeySelector(function=function), policy), eighth),
    "assign_timestamps": (
        lambda function, policy: GuardedTimestampsOperator(TimestampSelector(function=function), MONOTONOUS, policy),
        eighth,
    ),
    "process": (ProcessOperator, emit_eighth),
    "keyed process": (lambda function, policy: KeyedProcessOperator(ITSELF, function, policy), emit_eighth),
}
OUTPUTS = {
    "map": [2, 4],
    "flat_map": [8, 2, 8, 4],
    "process": [8, 2, 8, 4],
    "keyed process": [8, 2, 8, 4],
}


def made(kind: str, policy: str, function: Callable[..., Any] | None = None) -> Operator:
    make, usual = OPERATORS[kind]
    return make(function or usual, policy)


def letters_of(chain: Any) -> list[DeadLetter]:
    return [letter for tag, values in chain.side if tag == ERRORS for letter in values]


def times_in(batch: Batch) -> list[int]:
    times = times_of(batch)
    assert times is not None
    return list(times.tolist())


@pytest.mark.parametrize("kind", OPERATORS)
def test_a_failed_record_becomes_a_letter_and_nothing_else_of_it_leaves(task: Any, kind: str) -> None:
    chain = task(made(kind, "dead_letter"))
    chain.feed(4, 0, 2)
    assert (chain.output, [letter.record for letter in letters_of(chain)]) == (OUTPUTS.get(kind, [4, 2]), [0])


@pytest.mark.parametrize("kind", OPERATORS)
def test_a_typed_row_that_fails_is_in_the_letter_as_the_function_saw_it(task: Any, kind: str) -> None:
    chain = task(made(kind, "dead_letter"))
    chain.operator.process(TYPED, 0)
    rows = [(4,), (2,)]
    assert chain.output == OUTPUTS.get(kind, rows)
    assert [letter.record.n for letter in letters_of(chain)] == [0]


@pytest.mark.parametrize("kind", ["filter", "key_by", "assign_timestamps"])
def test_a_typed_batch_stays_typed(task: Any, kind: str) -> None:
    chain = task(made(kind, "skip"))
    chain.operator.process(TYPED, 0)
    assert [batch.column("n").to_pylist() for batch in chain.batches] == [[4, 2]]


@pytest.mark.parametrize("kind", OPERATORS)
def test_skipped_records_leave_no_letter_and_are_counted(task: Any, kind: str) -> None:
    chain = task(made(kind, "skip"))
    chain.feed(4, 0, 2, 0)
    counts = chain.metrics.skipped_records, chain.metrics.dead_letters
    assert (chain.output, letters_of(chain), counts) == (OUTPUTS.get(kind, [4, 2]), [], (2, 0))


@pytest.mark.parametrize("kind", OPERATORS)
def test_dead_letters_are_counted(task: Any, kind: str) -> None:
    chain = task(made(kind, "dead_letter"))
    chain.feed(0, 4, 0)
    assert (chain.metrics.skipped_records, chain.metrics.dead_letters) == (0, 2)


@pytest.mark.parametrize("kind", OPERATORS)
def test_a_batch_of_which_all_records_fail_leaves_no_empty_batch(task: Any, kind: str) -> None:
    chain = task(made(kind, "dead_letter"))
    chain.feed(0, 0)
    assert (chain.batches, [tag for tag, _ in chain.side]) == ([], [ERRORS])


@pytest.mark.parametrize("kind", [kind for kind in OPERATORS if kind != "assign_timestamps"])
def test_letters_and_outputs_have_the_times_of_their_records(task: Any, kind: str) -> None:
    chain = task(made(kind, "dead_letter"))
    sides: list[tuple[str, Any]] = []
    chain.operator.context.emit_side = lambda tag, batch: sides.append((tag, times_in(batch)))
    chain.feed_at((4, 10), (0, 20), (2, 30))
    times = [time for batch in chain.batches for time in times_in(batch)]
    twice = [10, 10, 30, 30]
    assert times == (twice if len(OUTPUTS.get(kind, [])) == 4 else [10, 30])
    assert dict(sides)[ERRORS] == [20]


def test_a_letter_says_what_happened_and_where(task: Any) -> None:
    chain = task(GuardedMapOperator(eighth, "dead_letter"))
    chain.feed(0)
    line = f"{__file__}:{eighth.__code__.co_firstlineno + 1} in eighth"
    message = "ZeroDivisionError: integer division or modulo by zero"
    assert letters_of(chain) == [DeadLetter(record=0, error=message, operator="uid", line=line)]


def test_a_letter_about_a_builtin_function_names_no_line(task: Any) -> None:
    chain = task(GuardedMapOperator(int, "dead_letter"))
    chain.feed("x")
    assert [letter.line for letter in letters_of(chain)] == [None]


def test_an_error_that_can_not_say_what_happened_is_known_by_its_class(task: Any) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError

    def fail(_: Any) -> Any:
        raise Mute

    chain = task(GuardedMapOperator(fail, "dead_letter"))
    chain.feed(1)
    assert [letter.error for letter in letters_of(chain)] == ["Mute"]


@pytest.mark.parametrize("kind", ["map", "flat_map", "filter", "key_by", "assign_timestamps", "process"])
def test_a_letter_has_the_record_as_it_came_in(task: Any, kind: str) -> None:
    def spoil(record: dict[str, Any], *_: Any) -> Any:
        record["seen"].append(1)
        raise ValueError

    chain = task(made(kind, "dead_letter", spoil))
    chain.feed({"seen": []})
    assert [letter.record for letter in letters_of(chain)] == [{"seen": []}]


@pytest.mark.parametrize("kind", OPERATORS)
@pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError(), StorageError("no disk"), InternalError("a bug")])
def test_what_is_no_fault_of_the_record_still_fails(task: Any, kind: str, error: BaseException) -> None:
    def fail(*_: Any) -> Any:
        raise error

    expected = UserFunctionError if isinstance(error, MemoryError) else type(error)
    with pytest.raises(expected):
        task(made(kind, "skip", fail)).feed(1)


@pytest.mark.parametrize("kind", OPERATORS)
def test_an_exit_is_told_as_ever(task: Any, kind: str) -> None:
    with pytest.raises(UserFunctionError, match="SystemExit"):
        task(made(kind, "dead_letter", lambda *_: sys.exit(1))).feed(1)


@pytest.mark.parametrize("kind", ["flat_map", "process"])
def test_what_is_no_iterable_of_records_is_a_failure_of_its_record(task: Any, kind: str) -> None:
    chain = task(made(kind, "dead_letter", lambda *arguments: arguments[0]))
    chain.feed("text", ["a"])
    assert (chain.output, [letter.record for letter in letters_of(chain)]) == (["a"], ["text"])


def test_side_outputs_of_a_failed_call_are_taken_back_and_no_others(task: Any) -> None:
    def aside(record: int, context: Any) -> None:
        context.side_output("seen", record)
        context.side_output(f"of {record}", record)
        context.emit(8 // record)

    chain = task(ProcessOperator(aside, "skip"))
    chain.feed(4, 0, 2)
    assert dict(chain.side) == {"seen": [4, 2], "of 4": [4], "of 2": [2]}


class Counting:
    """Counts its records before it fails."""

    def open(self, context: Any) -> None:
        self._seen = context.value_state("seen", 0)

    def process(self, record: tuple[str, int], context: Any) -> Iterator[Any]:
        self._seen.update(self._seen.value() + 1)
        if context.current_key == "timer":
            context.register_event_timer(5)
        yield record[0], self._seen.value(), 8 // record[1]

    def on_timer(self, time_ms: int, context: Any) -> Any:
        raise ValueError("a timer is no record")


def test_state_that_was_changed_before_the_failure_stays(task: Any) -> None:
    chain = task(KeyedProcessOperator(KeySelector(function=lambda record: record[0]), Counting(), "skip"))
    chain.feed(("a", 8), ("a", 0), ("a", 4))
    assert chain.output == [("a", 1, 1), ("a", 3, 2)]


def test_a_timer_that_fails_fails_the_job(task: Any) -> None:
    chain = task(KeyedProcessOperator(KeySelector(function=lambda record: record[0]), Counting(), "skip"))
    chain.feed(("timer", 1))
    with pytest.raises(UserFunctionError, match="a timer is no record"):
        chain.operator.on_watermark(MAX_TIMESTAMP_MS)


def test_objects_that_the_state_keeps_are_not_shared_with_outputs_before_a_failure(task: Any) -> None:
    class Keeping:
        def open(self, context: Any) -> None:
            self._kept = context.value_state("kept")

        def process(self, record: int, context: Any) -> Iterator[list[int]]:
            kept = self._kept.value() or []
            kept.append(8 // record)
            self._kept.update(kept)
            yield kept

    chain = task(KeyedProcessOperator(KeySelector(function=lambda record: 0), Keeping(), "skip"))
    chain.feed(8, 0, 4)
    assert chain.output == [[1], [1, 2]]


class Maps:
    def map1(self, record: int) -> int:
        return 8 // record

    def map2(self, record: int) -> int:
        return 80 // record


class Processes:
    def process1(self, record: int, context: Any) -> Iterator[int]:
        yield 8 // record

    def process2(self, record: int, context: Any) -> Iterator[int]:
        yield 80 // record


@pytest.mark.parametrize("keys", [None, (ITSELF, ITSELF)], ids=["plain", "keyed"])
@pytest.mark.parametrize("function", [Maps(), Processes()])
def test_connected_streams_go_on_after_a_failure_of_either(task: Any, function: Any, keys: Any) -> None:
    chain = task(ConnectOperator(function, keys, "dead_letter"))
    chain.feed(2, 0)
    chain.feed(0, 2, port=1)
    assert (chain.output, [letter.record for letter in letters_of(chain)]) == ([4, 40], [0, 0])


class Rules:
    def process(self, record: int, context: Any) -> Iterator[int]:
        yield 8 // record

    def process_broadcast(self, record: int, context: Any) -> None:
        context.broadcast_state[8 // record] = record


def test_only_the_records_beside_a_broadcast_stream_may_fail(task: Any) -> None:
    chain = task(BroadcastConnectOperator(Rules(), None, "skip"))
    chain.feed(2, 0)
    assert chain.output == [4]
    with pytest.raises(UserFunctionError, match="ZeroDivisionError"):
        chain.feed(0, port=1)


@pytest.mark.parametrize(
    ("key", "records", "good"),
    [
        (KeySelector(columns=("k",)), [{"k": 1}, {}, {"k": [1]}], [{"k": 1}]),
        (KeySelector(columns=("k", "l")), [{"k": 1}, {"k": 1, "l": 2}], [{"k": 1, "l": 2}]),
        (ITSELF, [float("nan"), 1, {}], [1]),
    ],
    ids=["a field", "fields", "a function"],
)
def test_records_without_a_key_that_can_be_one_fail(
    task: Any, key: KeySelector, records: list[Any], good: list[Any]
) -> None:
    chain = task(GuardedKeyOperator(key, "dead_letter"))
    chain.feed(*records)
    assert (chain.output, len(letters_of(chain))) == (good, len(records) - len(good))


def test_a_letter_about_a_missing_field_names_no_line_of_ours(task: Any) -> None:
    chain = task(GuardedKeyOperator(KeySelector(columns=("k",)), "dead_letter"))
    chain.feed({})
    assert [(letter.error, letter.line) for letter in letters_of(chain)] == [("KeyError: 'k'", None)]


def test_failed_timestamps_do_not_advance_event_time(task: Any) -> None:
    chain = task(GuardedTimestampsOperator(TimestampSelector(column="at"), MONOTONOUS, "dead_letter"))
    chain.feed({"at": 10}, {"at": "soon"}, {})
    assert (chain.output, chain.watermarks) == ([{"at": 10}], [9])
    assert [letter.record for letter in letters_of(chain)] == [{"at": "soon"}, {}]


def test_a_letter_with_a_typed_row_can_be_pickled_and_compared(task: Any) -> None:
    chain = task(GuardedMapOperator(eighth, "dead_letter"))
    chain.operator.process(TYPED, 0)
    (letter,) = letters_of(chain)
    assert pickle.loads(pickle.dumps(letter)) == letter


def test_user_errors_that_a_function_meets_in_the_context_are_failures_of_its_record(task: Any) -> None:
    def wants_state(record: int, context: Any) -> None:
        context.value_state("none")

    chain = task(ProcessOperator(wants_state, "dead_letter"))
    chain.feed(1)
    assert [letter.error.partition(":")[0] for letter in letters_of(chain)] == ["UserError"]

"""Does a user's function get its key, its state and its outputs, and no one else's?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from cutwater.batches import ObjectBatch
from cutwater.errors import UserError, UserFunctionError
from cutwater.graph.keys import KeySelector
from cutwater.operators.process import KeyedProcessOperator, ProcessOperator

FIRST = KeySelector(lambda record: record[0])


class Deduplicate:
    """Lets the first record of each key pass; the rest goes to the side."""

    def __init__(self) -> None:
        self.closed = 0

    def open(self, context: Any) -> None:
        self.seen = context.value_state("seen", False)

    def process(self, record: Any, context: Any) -> Iterator[Any]:
        if self.seen.value():
            context.side_output("again", record)
        else:
            self.seen.update(True)
            yield context.current_key, record[1]

    def close(self) -> None:
        self.closed += 1


def test_each_key_has_its_own_state(task: Any) -> None:
    chain = task(KeyedProcessOperator(FIRST, Deduplicate()))
    chain.feed(("a", 1), ("b", 2), ("a", 3), ("b", 4))
    assert chain.output == [("a", 1), ("b", 2)]
    assert chain.side == [("again", [("a", 3), ("b", 4)])]


def test_state_survives_a_restore(task: Any) -> None:
    chain = task(KeyedProcessOperator(FIRST, Deduplicate()))
    chain.feed(("a", 1))
    restored = task(KeyedProcessOperator(FIRST, Deduplicate()), keyed=list(chain.freeze_keyed().chunks()))
    restored.feed(("a", 2), ("c", 3))
    assert restored.output == [("c", 3)]


def test_every_kind_of_state_is_reached_through_the_context(task: Any) -> None:
    class Last:
        def create_accumulator(self) -> int:
            return 0

        def add(self, value: int, accumulator: int) -> int:
            return value

        def get_result(self, accumulator: int) -> int:
            return accumulator

        def merge(self, accumulator: int, other: int) -> int:
            return other

    def remember(record: Any, context: Any) -> list[Any]:
        values, by_value = context.list_state("list"), context.map_state("map")
        total, last = context.reducing_state("total", int.__add__), context.aggregating_state("last", Last())
        values.add(record[1])
        by_value.put(record[1], True)
        total.add(record[1])
        last.add(record[1])
        return [(values.get(), by_value.items(), total.get(), last.get())]

    chain = task(KeyedProcessOperator(FIRST, remember))
    chain.feed(("a", 1), ("b", 9), ("a", 2))
    assert chain.output[-1] == ([1, 2], [(1, True), (2, True)], 3, 2)


def test_emit_and_yield_keep_their_order_and_leave_as_one_batch(task: Any) -> None:
    def both(record: int, context: Any) -> Iterator[int]:
        context.emit(record)
        yield record + 1
        context.emit(record + 2)
        yield record + 3

    chain = task(ProcessOperator(both))
    chain.feed(0, 10)
    assert chain.batches == [ObjectBatch([0, 1, 2, 3, 10, 11, 12, 13])]


def test_a_function_without_output_emits_nothing(task: Any) -> None:
    chain = task(ProcessOperator(lambda record, context: None))
    chain.feed(1)
    assert (chain.batches, chain.side) == ([], [])


def test_side_outputs_of_one_batch_do_not_come_again_with_the_next(task: Any) -> None:
    chain = task(ProcessOperator(lambda record, context: context.side_output(record, record)))
    chain.feed("x", "y", "x")
    chain.feed("y")
    assert chain.side == [("x", ["x", "x"]), ("y", ["y"]), ("y", ["y"])]


def test_the_context_knows_the_task(task: Any) -> None:
    chain = task(
        ProcessOperator(lambda record, context: [(context.subtask, context.parallelism)]), subtask=2, parallelism=3
    )
    chain.feed(1)
    assert chain.output == [(2, 3)]


@pytest.mark.parametrize("kind", ["value", "list", "map"])
def test_state_without_a_key_is_refused_with_the_way_out(task: Any, kind: str) -> None:
    with pytest.raises(UserError) as failure:
        task(ProcessOperator(lambda record, context: getattr(context, f"{kind}_state")("seen"))).feed(1)
    assert type(failure.value) is UserError
    assert failure.value.fact == 'operator "parse" asks for state "seen", but has no key here'
    assert failure.value.hint.startswith("key_by first")


def test_a_generator_that_fails_half_way_names_its_record(task: Any) -> None:
    class Halves:
        def process(self, record: int, context: Any) -> Iterator[float]:
            yield 1 / record

    with pytest.raises(UserFunctionError) as failure:
        task(KeyedProcessOperator(KeySelector(lambda record: record), Halves())).feed(1, 0, 2)
    assert (
        failure.value.fact
        == 'function "Halves.process" of operator "parse" failed on a record: ZeroDivisionError: division by zero'
    )
    assert "record: 0\n" in failure.value.detail


def test_a_failure_in_open_says_so_and_close_is_called_once(task: Any) -> None:
    class Fragile:
        closed = 0

        def open(self, context: Any) -> None:
            raise OSError("no such model")

        def process(self, record: Any, context: Any) -> None: ...

        def close(self) -> None:
            self.closed += 1

    function = Fragile()
    operator = ProcessOperator(function)
    with pytest.raises(UserFunctionError, match="failed when it was opened"):
        task(operator)
    operator.close()
    assert function.closed == 1


def test_an_operator_that_was_never_opened_does_not_close_its_function() -> None:
    function = Deduplicate()
    KeyedProcessOperator(FIRST, function).close()
    assert function.closed == 0


def test_output_in_open_is_refused(task: Any) -> None:
    class Eager:
        def open(self, context: Any) -> None:
            context.emit(1)

        def process(self, record: Any, context: Any) -> None: ...

    with pytest.raises(UserError, match="emitted a value in open"):
        task(ProcessOperator(Eager()))


@pytest.mark.parametrize("function", [Deduplicate, 7])
def test_a_class_or_a_value_is_not_a_function(function: Any) -> None:
    with pytest.raises(UserError):
        ProcessOperator(function)

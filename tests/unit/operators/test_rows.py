"""Do map, flat_map, filter and map_batches keep records, order and kind of batch?"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cutwater.batches import TIME_METADATA, ObjectBatch, rows_of, times_of, with_times
from cutwater.errors import UserFunctionError
from cutwater.operators.rows import FilterOperator, FlatMapOperator, MapBatchesOperator, MapOperator
from cutwater.operators.union import PassOperator

TYPED = pa.record_batch({"word": ["a", "b", "c"], "n": [1, 2, 3]})


def parse(text: str) -> int:
    return int(text)


def raises_stop_iteration(_: Any) -> Any:
    return next(iter(()))


def test_map_answers_every_record(task: Any) -> None:
    chain = task(MapOperator(len))
    chain.feed("a", "bb")
    assert chain.output == [1, 2]


def test_map_sees_the_rows_of_a_typed_batch_by_name(task: Any) -> None:
    chain = task(MapOperator(lambda row: row.word * row.n))
    chain.operator.process(TYPED, 0)
    assert chain.output == ["a", "bb", "ccc"]


def test_flat_map_takes_lists_and_generators(task: Any) -> None:
    def letters(word: str) -> Iterator[str]:
        yield from word

    chain = task(FlatMapOperator(letters))
    chain.feed("ab", "", "c")
    assert chain.output == ["a", "b", "c"]


def test_flat_map_without_output_emits_no_empty_batch(task: Any) -> None:
    chain = task(FlatMapOperator(lambda record: []))
    chain.feed("a")
    assert chain.batches == []


def test_filter_keeps_a_typed_batch_typed(task: Any) -> None:
    chain = task(FilterOperator(lambda row: row.n % 2))  # truthy, not a bool
    chain.operator.process(TYPED, 0)
    assert chain.batches == [TYPED.take(pa.array([0, 2]))]


def test_filter_keeps_true_values_and_emits_no_empty_batch(task: Any) -> None:
    chain = task(FilterOperator(lambda value: value))
    chain.feed(0, 1, None, 2)
    chain.feed(0)
    assert chain.batches == [ObjectBatch([1, 2])]


@pytest.mark.parametrize(
    "function",
    [
        lambda batch: batch,
        lambda batch: [batch.slice(0, 1), batch.slice(1)],
        lambda batch: iter([batch, None]),
        lambda batch: pa.table(batch),
    ],
)
def test_map_batches_takes_arrow_in_any_wrapping(task: Any, function: Any) -> None:
    chain = task(MapBatchesOperator(function))
    chain.operator.process(TYPED, 0)
    assert [row.word for row in chain.output] == ["a", "b", "c"]


@pytest.mark.parametrize("beside", [False, True], ids=["in a column of the user's", "beside the columns"])
def test_map_batches_takes_times_as_the_united_streams_have_them(task: Any, beside: bool) -> None:
    plain = pa.schema([("word", pa.string()), ("at", pa.int64())])
    timed = plain.with_metadata({TIME_METADATA: b"at"})
    batch = pa.RecordBatch.from_arrays([pa.array(["a"]), pa.array([7])], schema=timed)
    chain = task(MapBatchesOperator(lambda batch: batch, timed))
    chain.operator.process(with_times(batch, np.array([8])) if beside else batch, 0)
    assert [times_of(found).tolist() for found in chain.batches] == [[8 if beside else 7]]


def test_map_batches_gets_a_list_of_its_own_and_may_return_one(task: Any) -> None:
    def drain(values: list[int]) -> list[int]:
        return [values.pop(), values.pop()]

    batch = ObjectBatch([1, 2])
    chain = task(MapBatchesOperator(drain))
    chain.operator.process(batch, 0)
    assert (chain.output, batch.values) == ([2, 1], [1, 2])


def test_map_batches_refuses_what_is_not_a_batch(task: Any) -> None:
    with pytest.raises(UserFunctionError, match='"<lambda>" of operator "parse" returned what is not a batch'):
        task(MapBatchesOperator(lambda values: iter([7]))).feed(1)


@pytest.mark.parametrize("kind", [MapOperator, FlatMapOperator, FilterOperator])
def test_the_failing_record_and_the_users_line_are_named(task: Any, kind: Any) -> None:
    with pytest.raises(UserFunctionError) as failure:
        task(kind(parse)).feed("1", "x", "2") if kind is not FlatMapOperator else task(kind(parse)).feed("x", "1")
    lines = str(failure.value).splitlines()
    message = "ValueError: invalid literal for int() with base 10: 'x'"
    assert lines[:2] == [
        f'function "parse" of operator "parse" failed on a record: {message}',
        "  detail: record: 'x'",
    ]
    assert lines[2] == f"          at {__file__}:{parse.__code__.co_firstlineno + 1} in parse"
    assert type(failure.value.__cause__) is ValueError


def test_a_library_that_fails_does_not_hide_the_users_line(task: Any) -> None:
    def load(text: str) -> Any:
        return json.loads(text)

    with pytest.raises(UserFunctionError) as failure:
        task(MapOperator(load)).feed("{")
    assert f"at {__file__}:" in failure.value.detail
    assert "decoder.py" not in failure.value.detail


def test_a_function_that_returned_no_iterable_is_named_by_where_it_was_written(task: Any) -> None:
    def one(_: Any) -> Any:
        return 1

    with pytest.raises(UserFunctionError, match=r"written at .*test_rows\.py:"):
        task(FlatMapOperator(one)).feed("a")


def test_a_long_record_is_cut_and_a_broken_one_still_shown(task: Any) -> None:
    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError

    for record in ("x" * 1000, Broken()):
        with pytest.raises(UserFunctionError) as failure:
            task(MapOperator(parse)).feed(record)
        shown = next(line for line in failure.value.detail.splitlines() if "record: " in line)
        assert len(shown.split("record: ")[1]) <= 200


@pytest.mark.parametrize("kind", [MapOperator, FlatMapOperator, FilterOperator, MapBatchesOperator])
def test_a_stop_iteration_of_the_function_is_a_failure_and_not_the_end_of_the_batch(task: Any, kind: Any) -> None:
    with pytest.raises(UserFunctionError, match="StopIteration"):
        task(kind(raises_stop_iteration)).feed(1, 2)


def test_a_failure_further_down_is_not_blamed_on_this_function(task: Any) -> None:
    def broken(_: Any) -> None:
        raise KeyError("downstream")

    chain = task(MapOperator(str))
    chain.operator.context.emit = broken
    with pytest.raises(KeyError):
        chain.feed(1)


def test_pass_hands_on_every_port(task: Any) -> None:
    chain = task(PassOperator())
    chain.feed(1, port=0)
    chain.feed(2, port=1)
    assert [rows_of(batch) for batch in chain.batches] == [[1], [2]]

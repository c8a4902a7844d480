"""Are running results right, per key, across freezes and after a restore?"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.batches import ObjectBatch
from cutwater.errors import KeyTypeError, UserFunctionError
from cutwater.graph.keys import KeySelector
from cutwater.operators import keyed_values
from cutwater.operators.keyed import (
    RunningAggregate,
    RunningCount,
    RunningMax,
    RunningMin,
    RunningReduce,
    RunningSum,
)
from cutwater.snapshots.local_files import LocalFiles
from cutwater.state.contract import KeyedBackendSettings
from cutwater.state.rocksdb.backend import RocksBackend

ITSELF = KeySelector(lambda record: record)
FIRST = KeySelector(lambda record: record[0])


class Collecting:
    """An aggregate that changes its accumulator in place, as many do."""

    def create_accumulator(self) -> list[Any]:
        return []

    def add(self, value: Any, accumulator: list[Any]) -> list[Any]:
        accumulator.append(value[1])
        return accumulator

    def get_result(self, accumulator: list[Any]) -> int:
        return len(accumulator)

    def merge(self, accumulator: list[Any], other: list[Any]) -> list[Any]:
        return accumulator + other


def test_count_answers_every_record_with_the_count_so_far(task: Any) -> None:
    chain = task(RunningCount(ITSELF))
    chain.feed("a", "b", "a")
    chain.feed("a")
    assert chain.output == [("a", 1), ("b", 1), ("a", 2), ("a", 3)]


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        (RunningSum(FIRST, 1), [3, 4, 6]),
        (RunningSum(FIRST, lambda record: -record[1]), [-3, -4, -6]),
        (RunningMin(FIRST, 1), [3, 1, 1]),
        (RunningMax(FIRST, 1), [3, 3, 3]),
        (RunningMin(FIRST), [("k", 3), ("k", 1), ("k", 1)]),
    ],
)
def test_aggregates_of_a_value(task: Any, operator: Any, expected: list[Any]) -> None:
    chain = task(operator)
    chain.feed(("k", 3), ("k", 1))
    chain.feed(("k", 2))
    assert chain.output == [("k", result) for result in expected]


def test_columns_of_a_typed_batch_and_fields_of_dicts_give_the_same(task: Any) -> None:
    rows = [{"user": "u", "amount": 2}, {"user": "v", "amount": 5}, {"user": "u", "amount": 1}]
    typed, objects = (task(RunningSum(KeySelector(columns=("user",)), "amount")) for _ in range(2))
    typed.operator.process(pa.RecordBatch.from_pylist(rows), 0)
    objects.feed(*rows)
    assert typed.output == objects.output == [("u", 2), ("v", 5), ("u", 3)]


def test_reduce_emits_the_reduced_value_alone(task: Any) -> None:
    chain = task(RunningReduce(FIRST, lambda left, right: (left[0], left[1] + right[1])))
    chain.feed(("k", 1), ("j", 5), ("k", 2))
    assert chain.output == [("k", 1), ("j", 5), ("k", 3)]


def test_aggregate_emits_key_and_result(task: Any) -> None:
    chain = task(RunningAggregate(FIRST, Collecting()))
    chain.feed(("k", 1), ("j", 5), ("k", 2))
    assert chain.output == [("k", 1), ("j", 1), ("k", 2)]


@given(batches=st.lists(st.lists(st.sampled_from("abcdefgh"), min_size=1), max_size=8), data=st.data())
def test_a_frozen_count_stays_as_it_was_however_the_stream_goes_on(
    task: Any, batches: list[list[str]], data: Any
) -> None:
    cut = data.draw(st.integers(0, len(batches)))
    chain = task(RunningCount(ITSELF))
    for batch in batches[:cut]:
        chain.feed(*batch)
    frozen = chain.freeze_keyed()
    for batch in batches[cut:]:
        chain.feed(*batch)
    restored = task(RunningCount(ITSELF), keyed=list(frozen.chunks()))
    restored.feed(*"abcdefgh")
    before = Counter(key for batch in batches[:cut] for key in batch)
    assert restored.output == [(key, before[key] + 1) for key in "abcdefgh"]


@pytest.mark.parametrize(
    "operator",
    [
        lambda: RunningAggregate(FIRST, Collecting()),
        lambda: RunningReduce(FIRST, _extend_in_place),
    ],
)
def test_a_function_that_changes_state_in_place_can_not_reach_a_frozen_one(task: Any, operator: Any) -> None:
    chain = task(operator())
    chain.feed(["k", [1]], ["k", [2]])
    frozen = chain.freeze_keyed()
    chain.feed(["k", [3]], ["k", [4]])
    first, second = chain.output[-1], task(operator(), keyed=list(frozen.chunks()))
    second.feed(["k", [3]], ["k", [4]])
    assert second.output[-1] == first


def _extend_in_place(left: list[Any], right: list[Any]) -> list[Any]:
    left[1].extend(right[1])
    return left


def test_a_backend_without_dicts_gives_the_same_results(task: Any, tmp_path: Path) -> None:
    local = LocalFiles(str(tmp_path), "job")
    backend = RocksBackend(KeyedBackendSettings(8, range(8), local, memory_bytes=8 << 20))
    chain = task(RunningCount(ITSELF))
    chain.backend = backend
    chain.operator.open(chain.operator.context)
    chain.feed("a", "b", "a")
    assert chain.output == [("a", 1), ("b", 1), ("a", 2)]
    backend.close()


def test_the_memory_of_key_groups_is_bounded(task: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyed_values, "_MEMO_ENTRIES_MAX", 3)
    chain = task(RunningCount(ITSELF))
    chain.feed(*range(10))
    assert len(chain.operator._values.group_of) <= 3


def test_a_value_that_can_not_be_added_names_its_record(task: Any) -> None:
    with pytest.raises(UserFunctionError) as failure:
        task(RunningSum(FIRST, 1)).feed(("k", 1), ("k", "x"), ("k", 2))
    assert failure.value.fact.startswith('function "sum" of operator "parse" failed on a record: TypeError: ')
    assert "record: ('k', 'x')" in failure.value.detail


def test_a_failing_reduce_names_function_record_and_line(task: Any) -> None:
    def worst(left: Any, right: Any) -> Any:
        raise RuntimeError("no")

    with pytest.raises(UserFunctionError) as failure:
        task(RunningReduce(FIRST, worst)).feed(("k", 1), ("k", 2), ("k", 3))
    assert failure.value.fact == 'function "worst" of operator "parse" failed on a record: RuntimeError: no'
    assert f"record: ('k', 2)\n          at {__file__}:{worst.__code__.co_firstlineno + 1}" in failure.value.detail


@pytest.mark.parametrize("key", [KeySelector(lambda record: record["user"]), KeySelector(columns=("user",))])
def test_a_record_without_its_key_is_named(task: Any, key: KeySelector) -> None:
    with pytest.raises(UserFunctionError) as failure:
        task(RunningCount(key)).feed({"user": 1}, {"name": 2})
    assert failure.value.fact.endswith("failed on a record: KeyError: 'user'")
    assert "record: {'name': 2}" in failure.value.detail


@pytest.mark.parametrize("key", [["a", "list"], object()])
def test_what_can_not_be_a_key_is_refused_with_the_reason(task: Any, key: Any) -> None:
    with pytest.raises(KeyTypeError):
        task(RunningCount(ITSELF)).feed(key)


def test_equal_keys_of_different_types_are_one_key(task: Any) -> None:
    chain = task(RunningCount(ITSELF))
    chain.operator.process(ObjectBatch([1, 1.0, True]), 0)
    assert [count for _, count in chain.output] == [1, 2, 3]

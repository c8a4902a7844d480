"""Is a stream whose failing records are left out the same as one that never had them?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.operators.conftest import Harness

from cutwater.batches import Batch, ObjectBatch, rows_of, times_of, with_times
from cutwater.operators.contract import Operator
from cutwater.operators.guarded_rows import GuardedFilterOperator, GuardedFlatMapOperator, GuardedMapOperator
from cutwater.operators.process import ProcessOperator
from cutwater.operators.rows import FilterOperator, FlatMapOperator, MapOperator


def value_of(record: Any) -> int:
    value: int = getattr(record, "n", record)
    if value % 3 == 0:
        raise ValueError(value)
    return value


def several(record: Any) -> Any:
    yield from range(getattr(record, "n", record) % 5)
    yield value_of(record)


def process(record: Any, context: Any) -> Any:
    context.emit(-1)
    yield from several(record)


TWINS: list[tuple[Callable[[], Operator], Callable[[str], Operator]]] = [
    (lambda: MapOperator(value_of), lambda policy: GuardedMapOperator(value_of, policy)),  # type: ignore[arg-type]
    (lambda: FlatMapOperator(several), lambda policy: GuardedFlatMapOperator(several, policy)),  # type: ignore[arg-type]
    (
        lambda: FilterOperator(lambda record: value_of(record) % 2),
        lambda policy: GuardedFilterOperator(lambda record: value_of(record) % 2, policy),  # type: ignore[arg-type]
    ),
    (lambda: ProcessOperator(process), lambda policy: ProcessOperator(process, policy)),  # type: ignore[arg-type]
]


def batch_of(numbers: list[int], *, typed: bool, timed: bool) -> Batch:
    batch: Batch = pa.record_batch({"n": pa.array(numbers, pa.int64())}) if typed else ObjectBatch(list(numbers))
    return with_times(batch, np.arange(len(numbers), dtype=np.int64) + np.array(numbers)) if timed else batch


def timed_rows(batches: list[Batch]) -> list[tuple[Any, Any]]:
    found = []
    for batch in batches:
        times = times_of(batch)
        rows = rows_of(batch)
        found += list(zip(rows, [None] * len(rows) if times is None else times.tolist(), strict=True))
    return found


@given(
    twins=st.sampled_from(TWINS),
    batches=st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=8), max_size=5),
    typed=st.booleans(),
    timed=st.booleans(),
    policy=st.sampled_from(["skip", "dead_letter"]),
)
def test_the_others_leave_as_if_the_failing_records_had_never_come(
    twins: Any, batches: list[list[int]], typed: bool, timed: bool, policy: str
) -> None:
    plain, guarded = Harness(twins[0]()), Harness(twins[1](policy))
    lost: list[tuple[Any, Any]] = []
    letters: list[Batch] = []
    guarded.operator.context.emit_side = lambda tag, batch: letters.append(batch)
    for numbers in batches:
        batch = batch_of(numbers, typed=typed, timed=timed)
        guarded.operator.process(batch, 0)
        # Record by record: those that fail are left out.
        for index, number in enumerate(numbers):
            one = (
                batch.slice(index, 1)
                if isinstance(batch, pa.RecordBatch)
                else ObjectBatch(
                    batch.values[index : index + 1], None if batch.times is None else batch.times[index : index + 1]
                )
            )
            if number % 3:
                plain.operator.process(one, 0)
            else:
                lost += timed_rows([one])
    assert timed_rows(guarded.batches) == timed_rows(plain.batches)
    told = [(letter.record, time) for letter, time in timed_rows(letters)]
    assert told == (lost if policy == "dead_letter" else [])
    assert guarded.metrics.skipped_records + guarded.metrics.dead_letters == len(lost)

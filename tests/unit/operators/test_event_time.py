"""When did a record happen, and what follows for time?"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from cutwater.batches import ObjectBatch, rows_of, times_of
from cutwater.errors import BadTimestampError, UserFunctionError
from cutwater.operators.event_time import (
    AssignTimestampsOperator,
    TimestampSelector,
    check_time_column,
    frozen_watermark,
    restored_watermark,
)
from cutwater.protocol.event_time import WatermarkStrategy
from cutwater.protocol.watermarks import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS

NOON = datetime(2020, 1, 1, 12, 0, 0, 123456)  # noqa: DTZ001 (without a zone: that is the case)
NOON_MS = 1_577_880_000_123
DAY_MS = 86_400_000
CET = timezone(timedelta(hours=1))


def assigner(selector: TimestampSelector, **strategy: Any) -> AssignTimestampsOperator:
    given = {"kind": "bounded", "every_seconds": 0.0} | strategy
    return AssignTimestampsOperator(selector, WatermarkStrategy(**given))


def itself(record: Any) -> Any:
    return record


def times(task: Any, *values: Any, unit: Any = "ms") -> list[int]:
    chain = task(assigner(TimestampSelector(function=itself, unit=unit), max_ahead_ms=None))
    chain.feed(*values)
    found = times_of(chain.batches[0])
    assert found is not None
    return found.tolist()


def column_times(task: Any, column: pa.Array, unit: Any = "ms", **strategy: Any) -> list[int]:
    chain = task(assigner(TimestampSelector(column="t", unit=unit), max_ahead_ms=None, **strategy))
    chain.operator.process(pa.RecordBatch.from_arrays([column], names=["t"]), 0)
    found = times_of(chain.batches[0])
    assert found is not None
    return found.tolist()


# Timestamps from a function.


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (NOON, NOON_MS),
        (NOON.replace(tzinfo=UTC), NOON_MS),
        (NOON.replace(tzinfo=CET), NOON_MS - 3_600_000),
        (datetime(1969, 12, 31, 23, 59, 59, 999_900, tzinfo=UTC), -1),
        (date(1969, 12, 31), -DAY_MS),
        (pd.Timestamp("2020-01-01T12:00:00.123456789", tz="UTC"), NOON_MS),
        (np.datetime64(5_999, "us"), 5),
        (np.int32(7), 7),
        (7, 7),
        (-7, -7),
        (7.9, 7),
        (-7.1, -8),
        (MAX_TIMESTAMP_MS, MAX_TIMESTAMP_MS),
        (MIN_TIMESTAMP_MS, MIN_TIMESTAMP_MS),
    ],
)
def test_a_function_may_return_any_kind_of_time(task: Any, value: Any, expected: int) -> None:
    assert times(task, value) == [expected]


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (1_700_000_000.123, "s", 1_700_000_000_123),
        (0.001, "s", 1),
        (-0.0005, "s", -1),
        (2, "s", 2000),
        (1_999, "us", 1),
        (-1, "us", -1),
        (1_999_999.0, "ns", 1),
        (-1, "ns", -1),
    ],
)
def test_numbers_are_in_the_unit_that_was_said(task: Any, value: Any, unit: str, expected: int) -> None:
    assert times(task, value, unit=unit) == [expected]


def test_zones_may_differ_from_record_to_record(task: Any) -> None:
    assert times(task, NOON.replace(tzinfo=CET), NOON.replace(tzinfo=UTC), NOON) == [
        NOON_MS - 3_600_000,
        NOON_MS,
        NOON_MS,
    ]


def test_integers_and_floats_may_stand_side_by_side(task: Any) -> None:
    assert times(task, 1, 2.5) == [1, 2]


@pytest.mark.parametrize(
    ("values", "culprit"),
    [
        (["2020-01-01"], "'2020-01-01'"),
        ([True], "True"),
        ([1, timedelta(1)], "datetime.timedelta(days=1)"),
        ([1, NOON], repr(NOON)),
        ([NOON, 1], "1"),
        ([date(2020, 1, 1), NOON], repr(NOON)),
    ],
)
def test_what_is_no_time_or_a_mixture_is_refused_by_name(task: Any, values: list[Any], culprit: str) -> None:
    with pytest.raises(BadTimestampError, match='operator "parse" got a timestamp that is none') as failure:
        times(task, *values)
    assert failure.value.detail == f"itself of {culprit} is {culprit}"


def test_a_function_that_fails_names_the_record(task: Any) -> None:
    chain = task(assigner(TimestampSelector(function=lambda record: record["t"])))
    with pytest.raises(UserFunctionError, match="failed on a record") as failure:
        chain.feed({"t": 1}, {"u": 2})
    assert "{'u': 2}" in failure.value.detail


@pytest.mark.parametrize("record", [{"t": 5}, pd.Timestamp(5, unit="s")])
def test_a_field_may_be_an_attribute_or_an_item(task: Any, record: Any) -> None:
    name = "t" if isinstance(record, dict) else "second"
    chain = task(assigner(TimestampSelector(column=name)))
    chain.feed(record)
    assert chain.batches[0].times.tolist() == [5]


# Timestamps from a column.


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
@pytest.mark.parametrize(("unit", "expected"), [("s", -1000), ("ms", -1), ("us", -1), ("ns", -1)])
def test_timestamp_columns_of_all_units_and_zones(task: Any, unit: str, expected: int, zone: str | None) -> None:
    column = pa.array([-1], pa.int64()).view(pa.timestamp(unit, zone))
    assert column_times(task, column) == [expected]


@pytest.mark.parametrize("kind", [pa.date32(), pa.date64()])
def test_date_columns_begin_at_midnight(task: Any, kind: pa.DataType) -> None:
    assert column_times(task, pa.array([date(1970, 1, 2), date(1969, 12, 31)], kind)) == [DAY_MS, -DAY_MS]


@pytest.mark.parametrize("kind", [pa.int32(), pa.uint16(), pa.uint64(), pa.int64()])
@pytest.mark.parametrize(("unit", "expected"), [("s", 7_000_000), ("ms", 7000), ("us", 7), ("ns", 0)])
def test_integer_columns_of_all_widths_and_units(task: Any, kind: pa.DataType, unit: str, expected: int) -> None:
    assert column_times(task, pa.array([7000], kind), unit) == [expected]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1, None], pa.int32()),
        pa.array([1, None], pa.uint64()),
        pa.array([1, None], pa.timestamp("us", "UTC")),
        pa.array([date(1970, 1, 1), None], pa.date32()),
        pa.array([1, None], pa.date64()),
    ],
)
def test_rows_without_a_timestamp_are_dropped_and_counted_whatever_the_type(task: Any, column: pa.Array) -> None:
    chain = task(assigner(TimestampSelector(column="t"), bad_timestamps="drop"))
    chain.operator.process(pa.RecordBatch.from_arrays([column], names=["t"]), 0)
    assert (chain.batches[0].num_rows, chain.metrics.bad_timestamps) == (1, 1)


def test_a_part_of_a_batch_has_its_own_times(task: Any) -> None:
    column = pa.array([1, 2, 3, 4], pa.timestamp("ms")).slice(1, 2)
    assert column_times(task, column) == [2, 3]


def test_a_batch_without_the_column_is_refused(task: Any) -> None:
    chain = task(assigner(TimestampSelector(column="t")))
    with pytest.raises(BadTimestampError, match='no column "t"') as failure:
        chain.operator.process(pa.RecordBatch.from_pydict({"u": [1]}), 0)
    assert failure.value.detail == "its columns: u int64"


@pytest.mark.parametrize("column", [pa.array(["2020-01-01"]), pa.array([1.5]), pa.array([True])])
def test_a_batch_whose_column_is_no_time_any_more_is_refused(task: Any, column: pa.Array) -> None:
    with pytest.raises(BadTimestampError, match='column "t" is no timestamp'):
        column_times(task, column)


def test_a_column_of_plain_numbers_needs_its_unit() -> None:
    schema = pa.schema([("t", pa.int64())])
    with pytest.raises(BadTimestampError, match="is no timestamp") as failure:
        check_time_column(schema, TimestampSelector(column="t"), unit_given=False)
    assert 'unit="ms"' in failure.value.hint
    check_time_column(schema, TimestampSelector(column="t"), unit_given=True)


# Bad timestamps.


def test_a_record_in_the_far_future_is_refused_by_name(task: Any) -> None:
    chain = task(assigner(TimestampSelector(function=itself)))
    absurd = chain.wall_ms + DAY_MS + 1
    with pytest.raises(BadTimestampError, match="far future") as failure:
        chain.feed(5, absurd)
    assert failure.value.detail == f"itself is 2023-11-15T22:13:20.001 ({absurd} ms); the record: {absurd}"
    assert (chain.output, chain.watermarks) == ([], [])


def test_a_record_at_the_limit_is_not_in_the_far_future(task: Any) -> None:
    chain = task(assigner(TimestampSelector(function=itself)))
    chain.feed(chain.wall_ms + DAY_MS)
    assert len(chain.output) == 1


def test_dropped_records_are_counted_and_move_no_clock(task: Any) -> None:
    chain = task(assigner(TimestampSelector(function=itself), bad_timestamps="drop"))
    chain.feed(5, None, chain.wall_ms * 2, 7, float("nan"))
    chain.feed(None, 2**70, -(2**70))
    assert (chain.output, chain.watermarks, chain.metrics.bad_timestamps) == ([5, 7], [6], 6)


def test_without_a_limit_anything_goes(task: Any) -> None:
    chain = task(assigner(TimestampSelector(function=itself), max_ahead_ms=None))
    chain.feed(MAX_TIMESTAMP_MS)
    assert chain.watermarks == [MAX_TIMESTAMP_MS - 1]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([2**62]).view(pa.timestamp("s")),
        pa.array([2**63], pa.uint64()),
        pa.array([-(2**62)]).view(pa.timestamp("s")),
    ],
)
def test_a_time_beyond_64_bits_of_milliseconds_is_bad_and_never_wraps_around(task: Any, column: pa.Array) -> None:
    with pytest.raises(BadTimestampError, match="that no clock can show"):
        column_times(task, column)


def test_seconds_beyond_64_bits_of_milliseconds_are_bad_too(task: Any) -> None:
    with pytest.raises(BadTimestampError, match="that no clock can show") as failure:
        times(task, 5, 2**60, unit="s")
    assert f"the record: {2**60}" in failure.value.detail


def test_a_null_is_refused_as_one(task: Any) -> None:
    with pytest.raises(BadTimestampError, match="has no timestamp") as failure:
        times(task, 1, None)
    assert failure.value.detail == "itself is null; the record: None"


# Watermarks.


def test_a_watermark_follows_the_records_less_the_bound(task: Any) -> None:
    chain = task(assigner(TimestampSelector(function=itself), out_of_orderness_ms=10))
    chain.feed(100, 95)
    chain.feed(98)
    chain.feed(120)
    assert chain.watermarks == [89, 109]


@pytest.mark.parametrize("time", [MIN_TIMESTAMP_MS, MIN_TIMESTAMP_MS + 5])
def test_a_watermark_does_not_fall_below_the_beginning_of_time(task: Any, time: int) -> None:
    chain = task(assigner(TimestampSelector(function=itself), out_of_orderness_ms=10))
    chain.feed(time)
    assert chain.watermarks == [MIN_TIMESTAMP_MS]


def test_dense_records_bring_few_watermarks_and_a_pause_brings_the_last(task: Any) -> None:
    chain = task(assigner(TimestampSelector(function=itself), every_seconds=1.0))
    for time in (10, 20, 30):
        chain.feed(time)
    dense = list(chain.watermarks)
    chain.operator.on_idle_input()
    chain.operator.on_idle_input()
    assert (dense, chain.watermarks) == ([9], [9, 29])


def test_a_silent_stream_is_told_idle_once_behind_its_last_watermark_and_wakes_the_task_for_it(task: Any) -> None:
    chain = task(assigner(TimestampSelector(function=itself), idle_after_seconds=5.0, every_seconds=1.0))
    chain.feed(10)
    chain.feed(20)
    chain.operator.on_idle_input()
    due_ms = chain.operator.next_wall_ms()
    chain.now_seconds += 5.0
    for _ in range(2):
        chain.operator.on_idle_input()
    assert (due_ms, chain.watermarks) == (chain.wall_ms + 5000, [9, 19, None])
    assert chain.operator.next_wall_ms() is None


def test_a_stream_that_speaks_again_says_that_it_counts_even_if_time_does_not_advance(task: Any) -> None:
    chain = task(assigner(TimestampSelector(function=itself), idle_after_seconds=5.0, every_seconds=100.0))
    chain.feed(10)
    chain.operator.on_idle_input()
    chain.now_seconds += 5.0
    chain.operator.on_idle_input()
    chain.feed(3)
    assert chain.watermarks == [9, None, 9]


def test_a_stream_that_nobody_could_read_is_not_silent(task: Any) -> None:
    chain = task(assigner(TimestampSelector(function=itself), idle_after_seconds=5.0))
    chain.feed(10)
    chain.now_seconds += 50.0  # the task had no room to emit, so it asked for nothing
    chain.operator.on_idle_input()
    assert chain.watermarks == [9]


def test_watermarks_from_before_end_here_but_for_the_last_which_the_own_one_precedes(task: Any) -> None:
    chain = task(assigner(TimestampSelector(function=itself), every_seconds=9.0))
    chain.feed(10)
    chain.feed(20)
    chain.operator.on_watermark(500)
    chain.operator.on_watermark(MAX_TIMESTAMP_MS)
    chain.operator.on_idle_input()
    assert chain.watermarks == [9, 19, MAX_TIMESTAMP_MS]


def test_a_restored_stream_goes_on_from_its_watermark(task: Any) -> None:
    before = task(assigner(TimestampSelector(function=itself)))
    before.feed(100)
    after = task(assigner(TimestampSelector(function=itself)), lists=before.freeze())
    after.operator.on_idle_input()
    after.feed(50)
    after.feed(200)
    assert after.watermarks == [99, 199]


def test_every_task_goes_on_from_its_own_watermark_or_from_the_slowest_when_there_are_more(task: Any) -> None:
    lists: dict[str, list[bytes]] = {}
    for subtask, time in enumerate((100, 50)):
        chain = task(assigner(TimestampSelector(function=itself)), subtask=subtask, parallelism=2)
        chain.feed(time)
        for name, items in chain.freeze().items():
            lists.setdefault(name, []).extend(items)
    restored = []
    for subtask, parallelism in ((0, 2), (1, 2), (2, 3)):
        again = task(
            assigner(TimestampSelector(function=itself)), lists=lists, subtask=subtask, parallelism=parallelism
        )
        again.operator.on_idle_input()
        restored.append(again.watermarks)
    assert restored == [[99], [49], [49]]


# Generators of the user's.


class Punctuated:
    """Every record with a second field tells a watermark."""

    def on_event(self, record: Any, timestamp_ms: int) -> Any:
        return record[1]


def custom(task: Any, generator: Any, **strategy: Any) -> Any:
    selector = TimestampSelector(function=lambda record: record[0])
    return task(assigner(selector, kind="custom", generator=generator, **strategy))


def test_a_generator_may_tell_per_record_and_one_that_goes_back_is_not_followed(task: Any) -> None:
    chain = custom(task, Punctuated)
    chain.feed((10, 5), (11, None), (12, 3))
    chain.feed((13, 4))
    chain.feed((14, 8))
    assert chain.watermarks == [5, 8]


def test_a_periodic_generator_is_also_asked_while_nothing_comes(task: Any) -> None:
    class Clock:
        told = 0

        def on_periodic(self) -> int:
            self.told += 1
            return self.told

    chain = custom(task, Clock, every_seconds=1.0)
    chain.feed((10, None))
    assert chain.operator.next_wall_ms() == chain.wall_ms + 1000
    for _ in range(3):
        chain.operator.on_idle_input()
    chain.now_seconds += 1.0
    chain.operator.on_idle_input()
    assert chain.watermarks == [1, 2]


@pytest.mark.parametrize("said", ["soon", 1.5, True, NOON])
def test_what_is_no_watermark_is_refused(task: Any, said: Any) -> None:
    with pytest.raises(UserFunctionError, match="returned what is no watermark"):
        custom(task, Punctuated).feed((10, said))


def test_a_generator_that_raises_names_its_record(task: Any) -> None:
    class Broken:
        def on_event(self, record: Any, timestamp_ms: int) -> Any:
            return 1 // record[1]

    with pytest.raises(UserFunctionError, match=r'"Broken.on_event" of operator "parse" failed on a record') as failure:
        custom(task, Broken).feed((10, 1), (11, 0))
    assert "record: (11, 0)" in failure.value.detail


def test_a_periodic_generator_that_raises_blames_no_record(task: Any) -> None:
    class Broken:
        def on_periodic(self) -> Any:
            raise LookupError("no idea")

    with pytest.raises(UserFunctionError, match=r'"Broken.on_periodic" of operator "parse" failed when asked'):
        custom(task, Broken).feed((10, 1))


@pytest.mark.parametrize("said", [MAX_TIMESTAMP_MS, 2**80])
def test_a_generator_can_not_end_time(task: Any, said: int) -> None:
    chain = custom(task, Punctuated)
    chain.feed((10, said))
    assert chain.watermarks == [MAX_TIMESTAMP_MS - 1]


def test_a_batch_keeps_its_values_and_gets_times(task: Any) -> None:
    chain = task(assigner(TimestampSelector(function=itself)))
    chain.operator.process(ObjectBatch([3, 4], np.array([100, 200])), 0)
    assert (rows_of(chain.batches[0]), chain.batches[0].times.tolist()) == ([3, 4], [3, 4])


# After a restore.


class FormerTasks:
    """A task among others, with what those before it have told."""

    same_inputs = True

    def __init__(self, subtask: int, parallelism: int, *told: tuple[int, int, int]) -> None:
        self.subtask = subtask
        self.parallelism = parallelism
        former = (FormerTasks(task, tasks) for task, tasks, _ in told)
        frozen = (frozen_watermark(task, time) for task, (_, _, time) in zip(former, told, strict=True))
        self.restored_lists = {"watermark": [item for lists in frozen for found in lists for item in found.items]}


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        (FormerTasks(1, 2, (0, 2, 10), (1, 2, 30)), 30),
        (FormerTasks(0, 2, (1, 2, 30)), None),
        (FormerTasks(0, 1, (0, 2, 10), (1, 2, 30)), 10),
        (FormerTasks(3, 4, (0, 2, 10), (1, 2, 30)), 10),
        (FormerTasks(3, 4, (1, 2, 30)), None),
        (FormerTasks(0, 1), None),
    ],
    ids=["its own", "its own had not begun", "fewer", "more", "more, and one had not begun", "none"],
)
def test_event_time_goes_on_from_the_slowest_unless_one_had_not_begun(task: Any, expected: int | None) -> None:
    assert restored_watermark(task) == expected

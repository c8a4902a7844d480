"""Do records of two streams meet when they happened close to each other, and leave alone when they did not?"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from cutwater.batches import rows_of, times_of, with_times
from cutwater.errors import BadTimestampError, UserError, UserFunctionError
from cutwater.graph.keys import KeySelector
from cutwater.operators.joins.inputs import PAIRS_MAX, JoinInputs
from cutwater.operators.joins.interval import IntervalJoinOperator, OuterIntervalJoinOperator
from cutwater.operators.joins.pairing import ColumnPairing, SelectPairing, TuplePairing

FIRST = KeySelector(lambda record: record[0])
MAX = 2**63 - 1


def joined(how: str = "inner", bounds: tuple[int, int] = (-5, 5), **options: Any) -> IntervalJoinOperator:
    pairing = options.pop("pairing", SelectPairing(lambda left, right: (left and left[1], right and right[1])))
    inputs = JoinInputs((FIRST, FIRST), pairing, how, **options)  # type: ignore[arg-type]
    return (IntervalJoinOperator if how == "inner" else OuterIntervalJoinOperator)(inputs, *bounds)


def left(chain: Any, *timed: tuple[str, int]) -> None:
    """Records that are called by key and time: a at 3 is ("a", "a3")."""
    chain.feed_at(*((((key, f"{key}{time}")), time) for key, time in timed), port=0)


def right(chain: Any, *timed: tuple[str, int]) -> None:
    chain.feed_at(*((((key, f"{key.upper()}{time}")), time) for key, time in timed), port=1)


def test_both_bounds_are_part_of_the_interval(task: Any) -> None:
    chain = task(joined(bounds=(-5, 2)))
    left(chain, ("a", 10))
    right(chain, ("a", 4), ("a", 5), ("a", 12), ("a", 13))
    assert chain.output == [("a10", "A5"), ("a10", "A12")]


def test_it_does_not_matter_which_side_comes_first(task: Any) -> None:
    chain = task(joined(bounds=(-5, 2)))
    right(chain, ("a", 4), ("a", 5), ("a", 12), ("a", 13))
    left(chain, ("a", 10))
    assert chain.output == [("a10", "A5"), ("a10", "A12")]


def test_records_of_different_keys_do_not_meet(task: Any) -> None:
    chain = task(joined())
    left(chain, ("a", 10), ("b", 10))
    right(chain, ("b", 11))
    assert chain.output == [("b10", "B11")]


def test_a_pair_happened_at_the_later_time_of_the_two(task: Any) -> None:
    chain = task(joined())
    left(chain, ("a", 10), ("a", 12), ("a", 14))
    right(chain, ("a", 12))
    assert times_of(chain.batches[0]).tolist() == [12, 12, 14]


def test_records_of_one_time_all_meet(task: Any) -> None:
    chain = task(joined(bounds=(0, 0)))
    left(chain, ("a", 10), ("a", 10))
    right(chain, ("a", 10), ("a", 10))
    assert chain.output == [("a10", "A10")] * 4


def test_an_interval_may_lie_in_the_past_altogether(task: Any) -> None:
    chain = task(joined(bounds=(-10, -5)))
    right(chain, ("a", 2), ("a", 5), ("a", 6))
    chain.operator.on_watermark(9)
    left(chain, ("a", 10))
    assert chain.output == [("a10", "A2"), ("a10", "A5")]


def test_a_record_whose_partners_can_not_come_any_more_is_not_kept(task: Any) -> None:
    chain = task(joined(bounds=(-10, -5)))
    chain.operator.on_watermark(9)
    left(chain, ("a", 10))
    assert chain.backend.size() == 0


def test_state_is_dropped_when_the_watermark_has_passed_the_interval(task: Any) -> None:
    chain = task(joined())
    left(chain, ("a", 10), ("a", 11))
    right(chain, ("a", 12), ("b", 12))
    chain.operator.on_watermark(16)
    assert chain.backend.size() > 0
    chain.operator.on_watermark(17)
    assert chain.backend.size() == 0


def test_what_may_still_find_a_partner_stays_when_its_elders_go(task: Any) -> None:
    chain = task(joined())
    left(chain, ("a", 10), ("a", 11))
    chain.operator.on_watermark(15)
    right(chain, ("a", 16))
    assert chain.output == [("a11", "A16")]


def test_a_key_that_never_rests_does_not_grow_without_end(task: Any) -> None:
    chain = task(joined())
    for time in range(0, 1000, 2):
        left(chain, ("a", time))
        right(chain, ("a", time + 1))
        chain.operator.on_watermark(time)
    (buffer,) = [value for entries in chain.backend.table("join").dicts for value in entries.values()]
    assert max(len(side[0]) for side in buffer) <= 12


def test_a_late_record_is_counted_and_joined_with_nothing(task: Any) -> None:
    chain = task(joined("full"))
    left(chain, ("a", 10))
    chain.operator.on_watermark(12)
    right(chain, ("a", 12), ("a", 13))
    assert (chain.output, chain.metrics.late_records) == ([("a10", "A13")], 1)


def test_late_records_go_to_their_side_output(task: Any) -> None:
    chain = task(joined(late_tags=("late left", "late right")))
    chain.operator.on_watermark(12)
    left(chain, ("a", 1), ("a", 20))
    right(chain, ("a", 2))
    assert chain.side == [("late left", [("a", "a1")]), ("late right", [("a", "A2")])]
    assert chain.metrics.late_records == 0


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("inner", [("a10", "A12")]),
        ("left", [("a10", "A12"), ("b10", None)]),
        ("right", [("a10", "A12"), (None, "C10")]),
        ("full", [("a10", "A12"), ("b10", None), (None, "C10")]),
    ],
)
def test_what_found_no_partner_leaves_alone(task: Any, how: str, expected: list[Any]) -> None:
    chain = task(joined(how))
    left(chain, ("a", 10), ("b", 10))
    right(chain, ("a", 12), ("c", 10))
    chain.operator.on_watermark(MAX)
    assert sorted(chain.output, key=str) == sorted(expected, key=str)
    assert chain.backend.size() == 0


def test_an_unmatched_record_leaves_as_soon_as_no_partner_can_come(task: Any) -> None:
    chain = task(joined("left"))
    left(chain, ("a", 10), ("a", 20))
    chain.operator.on_watermark(14)
    assert chain.output == []
    chain.operator.on_watermark(15)
    assert times_of(chain.batches[0]).tolist() == [10]
    assert chain.output == [("a10", None)]


def test_an_unmatched_record_that_came_out_of_order_does_not_wait_for_its_elders(task: Any) -> None:
    chain = task(joined("left"))
    left(chain, ("a", 20), ("a", 10))
    chain.operator.on_watermark(15)
    assert chain.output == [("a10", None)]


def test_event_time_waits_for_what_may_leave_alone(task: Any) -> None:
    chain = task(joined("left", bounds=(-3, 5)))
    chain.operator.on_watermark(15)
    chain.operator.on_watermark(MAX)
    assert chain.watermarks == [10, MAX]


@pytest.mark.parametrize(("how", "waits"), [("right", 3), ("full", 5)])
def test_each_side_waits_for_as_long_as_its_partners_may_come(task: Any, how: str, waits: int) -> None:
    chain = task(joined(how, bounds=(-3, 5)))
    chain.operator.on_watermark(15)
    assert chain.watermarks == [15 - waits]


def test_what_leaves_alone_is_never_late_for_the_next_operator(task: Any) -> None:
    chain = task(joined("full", bounds=(-3, 7)))
    for time in range(20):
        left(chain, ("a", 10 * time))
        right(chain, ("b", 10 * time + 1))
        chain.operator.on_watermark(10 * time + 1)
        assert all(times_of(batch).min() > (chain.watermarks[-2:-1] or [-99])[0] for batch in chain.batches)
        chain.batches.clear()


def test_many_pairs_leave_in_several_batches(task: Any) -> None:
    chain = task(joined(pairing=TuplePairing()))
    left(chain, *[("a", 10)] * 200)
    right(chain, *[("a", 10)] * 200)
    assert sum(batch.num_rows for batch in chain.batches) == 40_000
    assert max(batch.num_rows for batch in chain.batches) < PAIRS_MAX + 200


def test_a_snapshot_has_everything_and_shares_nothing(task: Any) -> None:
    chain = task(joined("full"))
    left(chain, ("a", 10), ("b", 10))
    right(chain, ("b", 11))
    chain.operator.on_watermark(9)
    frozen, lists = chain.freeze_keyed(), chain.freeze()
    left(chain, ("a", 12))
    right(chain, ("a", 13))
    restored = task(joined("full"), keyed=list(frozen.chunks()), lists=lists)
    right(restored, ("a", 9), ("a", 14))
    restored.operator.on_watermark(MAX)
    assert (restored.output, restored.metrics.late_records) == ([("a10", "A14")], 1)


def test_what_waited_alone_in_a_snapshot_still_leaves(task: Any) -> None:
    chain = task(joined("left"))
    left(chain, ("a", 10))
    restored = task(joined("left"), keyed=list(chain.freeze_keyed().chunks()))
    restored.operator.on_watermark(15)
    assert restored.output == [("a10", None)]


def test_records_without_timestamps_are_refused(task: Any) -> None:
    with pytest.raises(BadTimestampError, match="have no timestamps") as failure:
        task(joined()).feed(("a", 1))
    assert "assign_timestamps" in failure.value.hint


def test_a_failing_select_names_the_pair(task: Any) -> None:
    chain = task(joined(pairing=SelectPairing(lambda left, right: left[1] + 1)))
    left(chain, ("a", 10))
    with pytest.raises(UserFunctionError, match="on a pair") as failure:
        right(chain, ("a", 11))
    assert "(('a', 'a10'), ('a', 'A11'))" in failure.value.detail


# Typed streams.

ORDERS = pa.schema([("id", pa.int64()), ("at", pa.timestamp("ns")), ("price", pa.float64())])
PAYMENTS = pa.schema([("order", pa.int32()), ("price", pa.float64()), ("card", pa.string())])


def typed(how: str) -> IntervalJoinOperator:
    pairing = ColumnPairing(ORDERS, PAYMENTS, left_key=("id",), right_key=("order",))
    inputs = JoinInputs((KeySelector(columns=("id",)), KeySelector(columns=("order",))), pairing, how)  # type: ignore[arg-type]
    return (IntervalJoinOperator if how == "inner" else OuterIntervalJoinOperator)(inputs, -5, 5)


def batch(schema: pa.Schema, times: list[int], *columns: list[Any]) -> Any:
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return with_times(pa.RecordBatch.from_arrays(arrays, schema=schema), pa.array(times).to_numpy())


def test_a_pair_of_rows_has_the_key_once_and_clashing_names_apart(task: Any) -> None:
    chain = task(typed("full"))
    chain.operator.process(batch(ORDERS, [10, 10], [1, 2], [123456789, 5], [1.5, 2.5]), 0)
    chain.operator.process(batch(PAYMENTS, [11, 99], [1, 3], [1.0, 3.0], ["x", None]), 1)
    chain.operator.on_watermark(MAX)
    (pair,), rest = chain.batches[0].to_pylist(), [row for batch in chain.batches[1:] for row in batch.to_pylist()]
    assert chain.batches[0].schema.names == ["id", "at", "price", "price_right", "card", "__time"]
    assert chain.batches[0].schema.types[:2] == [pa.int64(), pa.timestamp("ns")]
    assert chain.batches[0].column("at").cast(pa.int64()).to_pylist() == [123456789]
    assert (pair["id"], pair["price"], pair["price_right"], pair["card"], pair["__time"]) == (1, 1.5, 1.0, "x", 11)
    assert sorted((row["id"], row["price"], row["price_right"], row["__time"]) for row in rest) == [
        (2, 2.5, None, 10),
        (3, None, 3.0, 99),
    ]


def test_a_typed_pair_is_a_named_row_for_functions(task: Any) -> None:
    chain = task(typed("inner"))
    chain.operator.process(batch(ORDERS, [10], [1], [0], [1.5]), 0)
    chain.operator.process(batch(PAYMENTS, [11], [1], [1.0], ["x"]), 1)
    (row,) = rows_of(chain.batches[0])
    assert (row.id, row.price_right, row._fields) == (1, 1.0, ("id", "at", "price", "price_right", "card"))


def test_a_batch_of_another_schema_is_refused(task: Any) -> None:
    chain = task(typed("inner"))
    with pytest.raises(UserError, match=r"left side .* has other columns") as failure:
        chain.operator.process(batch(PAYMENTS, [11], [1], [1.0], ["x"]), 0)
    assert "expected: id int64" in failure.value.detail


def test_dictionary_columns_and_keys_of_different_width_join(task: Any) -> None:
    encoded = pa.schema([("id", pa.dictionary(pa.int32(), pa.string())), ("n", pa.int8())])
    plain = pa.schema([("id", pa.string()), ("m", pa.date32())])
    pairing = ColumnPairing(encoded, plain, left_key=("id",), right_key=("id",))
    key = KeySelector(columns=("id",))
    chain = task(IntervalJoinOperator(JoinInputs((key, key), pairing), -5, 5))
    words = pa.RecordBatch.from_arrays(
        [pa.array(["u", "v"]).dictionary_encode(), pa.array([1, 2], pa.int8())], schema=encoded
    )
    chain.operator.process(with_times(words, pa.array([1, 2]).to_numpy()), 0)
    chain.operator.process(batch(plain, [3], ["v"], [7]), 1)
    assert [tuple(row) for row in chain.output] == [("v", 2, pa.scalar(7, pa.date32()).as_py())]

"""Is a record joined with the version that was valid when it happened?"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from cutwater.batches import times_of, with_times
from cutwater.errors import BadTimestampError, KeyTypeError, UserError
from cutwater.graph.keys import KeySelector
from cutwater.operators.joins.lookup import EventTimeLookupOperator, LatestLookupOperator, LookupInputs
from cutwater.operators.joins.pairing import ColumnPairing, TuplePairing
from cutwater.operators.joins.versions import Versions

FIRST = KeySelector(lambda record: record[0])
MAX = 2**63 - 1


def by_event_time(**options: Any) -> EventTimeLookupOperator:
    return EventTimeLookupOperator(LookupInputs(FIRST, FIRST, TuplePairing(), **options))


def latest(**options: Any) -> LatestLookupOperator:
    return LatestLookupOperator(LookupInputs(FIRST, FIRST, TuplePairing(), **options))


def records(chain: Any, *timed: tuple[str, int]) -> None:
    chain.feed_at(*(((key, f"at {time}"), time) for key, time in timed))


def versions(chain: Any, *timed: tuple[str, int]) -> None:
    chain.feed_at(*(((key, f"since {time}"), time) for key, time in timed), port=1)


def found(chain: Any) -> list[tuple[str, str | None]]:
    return [(record[1], version and version[1]) for record, version in chain.output]


def test_a_record_waits_for_the_watermark_and_gets_the_version_of_its_time(task: Any) -> None:
    chain = task(by_event_time())
    records(chain, ("a", 15), ("a", 9), ("a", 10))
    versions(chain, ("a", 20), ("a", 10), ("a", 5))
    chain.operator.on_watermark(10)
    assert times_of(chain.batches[0]).tolist() == [9, 10]
    assert found(chain) == [("at 9", "since 5"), ("at 10", "since 10")]
    chain.operator.on_watermark(30)
    assert found(chain) == [("at 15", "since 10")]


@pytest.mark.parametrize(("keeps", "expected"), [(False, []), (True, [("at 9", None)])])
def test_a_record_before_the_first_version_finds_nothing(task: Any, keeps: bool, expected: list[Any]) -> None:
    chain = task(by_event_time(keeps_unmatched=keeps))
    versions(chain, ("a", 10), ("b", 1))
    records(chain, ("a", 9))
    chain.operator.on_watermark(MAX)
    assert found(chain) == expected


def test_of_two_versions_of_one_time_the_later_to_come_counts(task: Any) -> None:
    chain = task(by_event_time())
    chain.feed_at((("a", "old"), 5), (("a", "new"), 5), port=1)
    records(chain, ("a", 5))
    chain.operator.on_watermark(5)
    assert found(chain) == [("at 5", "new")]


def test_only_the_newest_version_behind_the_watermark_is_kept() -> None:
    known = Versions()
    for time in (1, 5, 3, 9):
        known.add("a", time, f"since {time}")
    known.add("b", 1, "since 1")
    known.forget_before(5)
    assert dict(known.items()) == {"a": [(5, "since 5"), (9, "since 9")], "b": [(1, "since 1")]}


def test_a_version_that_comes_first_in_time_but_last_is_forgotten_too() -> None:
    known = Versions([("a", [(5, "since 5")])])
    known.add("a", 1, "since 1")
    known.forget_before(5)
    assert len(known) == 1


def test_a_late_record_is_counted_or_given_out(task: Any) -> None:
    chain, open_chain = task(by_event_time()), task(by_event_time(late_tag="late"))
    for each in (chain, open_chain):
        each.operator.on_watermark(10)
        records(each, ("a", 10))
    assert (chain.metrics.late_records, open_chain.metrics.late_records) == (1, 0)
    assert open_chain.side == [("late", [("a", "at 10")])]


def test_a_late_version_counts_from_now_on(task: Any) -> None:
    chain = task(by_event_time())
    versions(chain, ("a", 1))
    chain.operator.on_watermark(10)
    versions(chain, ("a", 8))
    records(chain, ("a", 11))
    chain.operator.on_watermark(11)
    assert found(chain) == [("at 11", "since 8")]


def test_the_latest_version_is_joined_at_once_and_is_the_newest_by_time(task: Any) -> None:
    chain = task(latest(keeps_unmatched=True))
    records(chain, ("a", 3))
    versions(chain, ("a", 9), ("a", 2))
    records(chain, ("a", 1))
    assert found(chain) == [("at 3", None), ("at 1", "since 9")]


def test_the_latest_version_needs_no_event_time(task: Any) -> None:
    chain = task(latest())
    chain.feed(("a", 1), ("a", 2), port=1)
    chain.feed(("a", "x"))
    assert chain.batches[0].times is None
    assert chain.output == [(("a", "x"), ("a", 2))]


@pytest.mark.parametrize("stream_key", [None, FIRST, KeySelector(lambda record: record[1])])
def test_what_waits_and_the_versions_survive(task: Any, stream_key: KeySelector | None) -> None:
    chain = task(by_event_time(stream_key=stream_key))
    versions(chain, ("a", 1), ("a", 5))
    records(chain, ("a", 6), ("a", 4), ("b", 4))
    chain.operator.on_watermark(3)
    snapshot = chain.operator.freeze(1)
    records(chain, ("a", 5))
    versions(chain, ("a", 2))
    restored = task(
        by_event_time(stream_key=stream_key),
        lists={part.name: list(part.items) for part in snapshot.lists},
        keyed=[] if snapshot.keyed is None else list(snapshot.keyed.chunks()),
    )
    records(restored, ("a", 3))
    restored.operator.on_watermark(MAX)
    assert (found(restored), restored.metrics.late_records) == ([("at 4", "since 1"), ("at 6", "since 5")], 1)


def test_after_a_rescale_nobody_misses_a_version_that_a_faster_task_forgot(task: Any) -> None:
    items: dict[str, list[bytes]] = {"versions": [], "waiting": []}
    for subtask, watermark in ((0, 9), (1, 2)):
        chain = task(by_event_time(), subtask=subtask, parallelism=2)
        versions(chain, ("a", 1), ("a", 5), ("a", 8))
        records(chain, ("a", 10 if subtask == 0 else 3))
        chain.operator.on_watermark(watermark)
        for name, parts in chain.freeze().items():
            items[name] += parts
    restored = task(by_event_time(), lists=items)
    restored.operator.on_watermark(MAX)
    assert found(restored) == [("at 3", "since 1"), ("at 10", "since 8")]


def test_the_list_of_those_that_wait_is_split_and_the_versions_are_for_all(task: Any) -> None:
    chain = task(by_event_time())
    records(chain, *[("a", time) for time in range(600)])
    parts = {part.name: (part.redistribution, len(part.items)) for part in chain.operator.freeze(1).lists}
    assert parts == {"waiting": ("split", 3), "versions": ("union", 1)}


@pytest.mark.parametrize("port", [0, 1])
def test_a_key_that_is_null_is_refused(task: Any, port: int) -> None:
    with pytest.raises(UserError, match="has no key") as failure:
        task(by_event_time()).feed_at((("a", 1), 1), ((None, "x"), 1), port=port)
    assert "(None, 'x')" in failure.value.detail


def test_a_key_of_several_columns_may_have_no_null_part(task: Any) -> None:
    both = KeySelector(columns=("one", "other"))
    chain = task(EventTimeLookupOperator(LookupInputs(both, both, TuplePairing())))
    with pytest.raises(UserError, match="has no key"):
        chain.feed_at(({"one": 1, "other": None}, 1))


def test_a_key_that_is_none_is_refused_by_its_type(task: Any) -> None:
    with pytest.raises(KeyTypeError, match=r"builtins\.list"):
        task(latest()).feed(([1], 1), port=1)


def test_records_and_versions_need_timestamps(task: Any) -> None:
    for port in (0, 1):
        with pytest.raises(BadTimestampError, match="have no timestamps"):
            task(by_event_time()).feed(("a", 1), port=port)


def test_typed_records_and_versions_become_one_row(task: Any) -> None:
    trades = pa.schema([("currency", pa.string()), ("amount", pa.int64())])
    rates = pa.schema([("code", pa.string()), ("rate", pa.float64()), ("amount", pa.int8())])
    pairing = ColumnPairing(trades, rates, left_key=("currency",), right_key=("code",))
    key, on = KeySelector(columns=("currency",)), KeySelector(columns=("code",))
    chain = task(EventTimeLookupOperator(LookupInputs(key, on, pairing, keeps_unmatched=True)))
    rate = pa.RecordBatch.from_pylist([{"code": "EUR", "rate": 1.1, "amount": 7}], schema=rates)
    trade = pa.RecordBatch.from_pylist(
        [{"currency": "EUR", "amount": 2}, {"currency": "USD", "amount": 3}], schema=trades
    )
    chain.operator.process(with_times(rate, pa.array([1]).to_numpy()), 1)
    chain.operator.process(with_times(trade, pa.array([5, 6]).to_numpy()), 0)
    chain.operator.on_watermark(6)
    assert chain.batches[0].schema.names == ["currency", "amount", "rate", "amount_right", "__time"]
    assert [tuple(row) for row in chain.output] == [("EUR", 2, 1.1, 7), ("USD", 3, None, None)]

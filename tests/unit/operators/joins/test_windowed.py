"""Do the records of two streams meet in their windows?"""

from __future__ import annotations

from typing import Any

import pytest

from cutwater.batches import times_of
from cutwater.errors import BadTimestampError, UserError
from cutwater.graph.keys import KeySelector
from cutwater.operators.joins.inputs import JoinInputs
from cutwater.operators.joins.pairing import SelectPairing
from cutwater.operators.joins.windowed import (
    AlignedWindowJoinOperator,
    SessionWindowJoinOperator,
    WindowJoinOperator,
)
from cutwater.operators.windows.model import AlignedWindows, SessionWindows

FIRST = KeySelector(lambda record: record[0])
MAX = 2**63 - 1
TUMBLING = AlignedWindows(size_ms=10, every_ms=10, offset_ms=0, time="event")
SLIDING = AlignedWindows(size_ms=10, every_ms=4, offset_ms=1, time="event")
SESSION = SessionWindows(gap_ms=5, gap_function=None, time="event")


def joined(windows: Any, how: str = "inner", **options: Any) -> WindowJoinOperator:
    pairing = SelectPairing(lambda left, right: (left and left[1], right and right[1]))
    inputs = JoinInputs((FIRST, FIRST), pairing, how, **options)  # type: ignore[arg-type]
    if isinstance(windows, SessionWindows):
        return SessionWindowJoinOperator(inputs, windows)
    return AlignedWindowJoinOperator(inputs, windows)


def left(chain: Any, *timed: tuple[str, int]) -> None:
    """Records that are called by key and time: a at 3 is ("a", "a3")."""
    chain.feed_at(*(((key, f"{key}{time}"), time) for key, time in timed), port=0)


def right(chain: Any, *timed: tuple[str, int]) -> None:
    chain.feed_at(*(((key, f"{key.upper()}{time}"), time) for key, time in timed), port=1)


def test_pairs_of_a_window_leave_when_it_ends_at_its_last_moment(task: Any) -> None:
    chain = task(joined(TUMBLING))
    left(chain, ("a", 0), ("a", 9), ("a", 10), ("b", 1))
    right(chain, ("a", 5), ("a", 19))
    chain.operator.on_watermark(8)
    assert chain.batches == []
    chain.operator.on_watermark(9)
    assert times_of(chain.batches[0]).tolist() == [9, 9]
    assert chain.output == [("a0", "A5"), ("a9", "A5")]
    chain.operator.on_watermark(19)
    assert chain.output == [("a10", "A19")]
    assert chain.backend.size() == 0


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("inner", [("a1", "A2")]),
        ("left", [("a1", "A2"), ("b1", None)]),
        ("right", [("a1", "A2"), (None, "C1")]),
        ("full", [("a1", "A2"), ("b1", None), (None, "C1")]),
    ],
)
@pytest.mark.parametrize("windows", [TUMBLING, SESSION])
def test_a_window_without_the_other_side_leaves_alone(
    task: Any, windows: Any, how: str, expected: list[tuple[str | None, str | None]]
) -> None:
    chain = task(joined(windows, how))
    left(chain, ("a", 1), ("b", 1))
    right(chain, ("a", 2), ("c", 1))
    chain.operator.on_watermark(MAX)
    assert (sorted(chain.output, key=str), chain.backend.size()) == (sorted(expected, key=str), 0)


def test_a_pair_leaves_with_every_sliding_window_that_holds_both(task: Any) -> None:
    # Windows: [-7, 3) [-3, 7) [1, 11) [5, 15) …
    chain = task(joined(SLIDING))
    left(chain, ("a", 2))
    right(chain, ("a", 6))
    chain.operator.on_watermark(MAX)
    assert [times_of(batch).tolist() for batch in chain.batches] == [[6, 10]]
    assert chain.output == [("a2", "A6")] * 2
    assert chain.backend.size() == 0


def test_a_record_is_kept_once_however_many_windows_hold_it(task: Any) -> None:
    chain = task(joined(AlignedWindows(size_ms=100, every_ms=1, offset_ms=0, time="event")))
    left(chain, ("a", 50))
    (slices,) = [value for entries in chain.backend.table("join").dicts for value in entries.values()]
    assert slices == {50: ([("a", "a50")], [])}


def test_a_record_that_is_late_for_some_windows_only_is_in_the_others(task: Any) -> None:
    chain = task(joined(SLIDING))
    right(chain, ("a", 6))
    chain.operator.on_watermark(6)
    left(chain, ("a", 2))
    chain.operator.on_watermark(MAX)
    assert (chain.output, chain.metrics.late_records) == ([("a2", "A6")], 0)


def test_a_record_between_two_windows_is_in_none(task: Any) -> None:
    chain = task(joined(AlignedWindows(size_ms=2, every_ms=10, offset_ms=0, time="event"), "left"))
    left(chain, ("a", 5))
    chain.operator.on_watermark(MAX)
    assert (chain.output, chain.backend.size()) == ([], 0)


@pytest.mark.parametrize("windows", [TUMBLING, SESSION])
def test_a_record_whose_window_is_over_is_late(task: Any, windows: Any) -> None:
    chain = task(joined(windows, "left", late_tags=(None, "late")))
    chain.operator.on_watermark(19)
    left(chain, ("a", 9), ("a", 20))
    right(chain, ("a", 9))
    chain.operator.on_watermark(MAX)
    assert (chain.output, chain.metrics.late_records, chain.side) == ([("a20", None)], 1, [("late", [("a", "A9")])])


def test_sessions_are_made_of_both_sides(task: Any) -> None:
    chain = task(joined(SESSION))
    left(chain, ("a", 0), ("a", 10))
    right(chain, ("a", 5))
    chain.operator.on_watermark(13)
    assert chain.batches == []
    chain.operator.on_watermark(14)
    assert times_of(chain.batches[0]).tolist() == [14, 14]
    assert chain.output == [("a0", "A5"), ("a10", "A5")]


def test_sessions_further_apart_than_the_gap_stay_apart(task: Any) -> None:
    chain = task(joined(SESSION, "full"))
    left(chain, ("a", 0))
    right(chain, ("a", 6))
    chain.operator.on_watermark(MAX)
    assert chain.output == [("a0", None), (None, "A6")]


def test_a_session_that_is_still_open_takes_in_a_record_that_would_be_late(task: Any) -> None:
    chain = task(joined(SESSION))
    left(chain, ("a", 5))
    chain.operator.on_watermark(8)
    right(chain, ("a", 1))
    chain.operator.on_watermark(MAX)
    assert (chain.output, chain.metrics.late_records) == ([("a5", "A1")], 0)


def test_the_gap_may_be_the_records_own(task: Any) -> None:
    chain = task(
        joined(SessionWindows(gap_ms=None, gap_function=lambda r: "8ms" if r[1] == "a0" else "2ms", time="event"))
    )
    left(chain, ("a", 0), ("a", 9))
    right(chain, ("a", 8))
    chain.operator.on_watermark(MAX)
    assert chain.output == [("a0", "A8"), ("a9", "A8")]


def test_a_gap_of_nothing_is_refused(task: Any) -> None:
    chain = task(joined(SessionWindows(gap_ms=None, gap_function=lambda record: 0, time="event")))
    with pytest.raises(UserError, match="gap of a session can't be 0"):
        left(chain, ("a", 0))


@pytest.mark.parametrize("windows", [TUMBLING, SLIDING, SESSION])
def test_windows_survive_and_share_nothing_with_what_goes_on(task: Any, windows: Any) -> None:
    chain = task(joined(windows))
    left(chain, ("a", 2))
    right(chain, ("b", 2))
    chain.operator.on_watermark(0)
    snapshot = chain.operator.freeze(1)
    right(chain, ("a", 2))
    restored = task(
        joined(windows),
        keyed=list(snapshot.keyed.chunks()),
        lists={part.name: list(part.items) for part in snapshot.lists},
    )
    right(restored, ("a", 3))
    restored.operator.on_watermark(MAX)
    assert set(restored.output) == {("a2", "A3")}


def test_the_watermark_of_the_snapshot_decides_who_is_late(task: Any) -> None:
    chain = task(joined(TUMBLING))
    chain.operator.on_watermark(9)
    restored = task(joined(TUMBLING), lists=chain.freeze())
    left(restored, ("a", 9))
    assert restored.metrics.late_records == 1


def test_records_without_timestamps_are_refused(task: Any) -> None:
    for windows in (TUMBLING, SESSION):
        with pytest.raises(BadTimestampError, match="have no timestamps"):
            task(joined(windows)).feed(("a", 1))

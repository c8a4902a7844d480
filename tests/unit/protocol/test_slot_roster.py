from __future__ import annotations

from cutwater.protocol.ids import AttemptNumber, SlotId
from cutwater.protocol.slot_roster import Leaving, SlotRoster

A, B = SlotId("a"), SlotId("b")
ONE, TWO = AttemptNumber(1), AttemptNumber(2)


def roster_of(*slots: SlotId) -> SlotRoster:
    roster = SlotRoster(patience_seconds=30.0)
    for slot in slots:
        roster.registered(slot)
    return roster


def test_a_slot_that_still_has_tasks_takes_no_new_ones() -> None:
    roster = roster_of(A, B)
    roster.told_to_drop(A, ONE, now_seconds=0.0)
    assert roster.free == [B]
    roster.dropped(A, ONE)
    assert roster.free == [A, B]


def test_to_have_dropped_an_older_attempt_is_not_enough() -> None:
    roster = roster_of(A)
    roster.told_to_drop(A, TWO, now_seconds=0.0)
    roster.dropped(A, ONE)
    assert roster.leaving == {A: Leaving(TWO, 0.0)}


def test_a_slot_that_does_not_get_out_in_time_is_written_off_once() -> None:
    roster = roster_of(A, B)
    roster.told_to_drop(A, ONE, now_seconds=5.0)
    assert roster.wake_at() == 35.0
    assert roster.write_off(34.9) == {}
    assert roster.write_off(35.0) == {A: Leaving(ONE, 5.0)}
    assert (roster.write_off(99.0), roster.wake_at()) == ({}, None)


def test_a_slot_that_was_written_off_never_comes_back() -> None:
    roster = roster_of(A, B)
    roster.told_to_drop(A, ONE, now_seconds=0.0)
    roster.write_off(30.0)
    roster.dropped(A, ONE)
    roster.told_to_drop(A, TWO, now_seconds=31.0)
    assert (roster.free, roster.leaving) == ([B], {})


def test_a_lost_slot_is_not_waited_for() -> None:
    roster = roster_of(A)
    roster.told_to_drop(A, ONE, now_seconds=0.0)
    roster.lost(A)
    assert (roster.free, roster.write_off(60.0)) == ([], {})

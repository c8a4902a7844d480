from __future__ import annotations

from cutwater.protocol.deploying import DeployingSlots
from cutwater.protocol.ids import SlotId

A, B = SlotId("a"), SlotId("b")


def deploying(*slots: SlotId) -> DeployingSlots:
    return DeployingSlots(slots, now_seconds=0.0, timeout_seconds=100.0)


def test_the_last_slot_to_report_completes_the_deployment() -> None:
    slots = deploying(A, B)
    assert [slots.deployed(A), slots.deployed(A), slots.deployed(B)] == [False, False, True]


def test_what_takes_longest_is_named() -> None:
    slots = deploying(A, B)
    slots.opening(A, operator="model", now_seconds=1.0)
    slots.opening(B, operator="count", now_seconds=30.0)
    assert slots.waiting_for(41.0) == 'open of operator "model" in slot a since 40 s, and 1 more'


def test_a_slot_that_has_not_said_anything_is_named_too() -> None:
    assert deploying(A).waiting_for(7.0) == "the tasks in slot a since 7 s"


def test_when_all_are_deployed_nothing_is_waited_for() -> None:
    slots = deploying(A)
    slots.deployed(A)
    assert (slots.waiting_for(7.0), slots.overdue_at()) == ("", None)


def test_a_slot_that_opens_one_operator_after_the_other_is_never_overdue() -> None:
    slots = deploying(A)
    for turn in range(1, 20):
        assert slots.overdue(turn * 90.0) == []
        slots.opening(A, operator=f"o{turn}", now_seconds=turn * 90.0)


def test_a_slot_that_stands_still_is_overdue_and_its_operator_named() -> None:
    slots = deploying(A, B)
    slots.opening(A, operator="model", now_seconds=10.0)
    slots.deployed(B)
    assert slots.overdue_at() == 110.0
    assert (slots.overdue(109.0), slots.overdue(110.0)) == ([], [(A, "model")])

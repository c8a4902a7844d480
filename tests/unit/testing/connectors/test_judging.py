"""Which outcomes a guarantee allows."""

from __future__ import annotations

import pytest

from cutwater.graph.guarantees import Guarantee
from cutwater.testing.connectors.judging import Observation, judge, repetitions

MISSING = "1 record is missing: 1"
TWICE = "1 record is there more than once: 2"


@pytest.mark.parametrize("guarantee", Guarantee)
def test_each_number_once_satisfies_everyone(guarantee: Guarantee) -> None:
    assert judge(guarantee, Observation(3, received=[2, 0, 1])) == ()


@pytest.mark.parametrize(
    ("guarantee", "found"),
    [
        (Guarantee.EXACTLY_ONCE, (MISSING, TWICE)),
        (Guarantee.AT_LEAST_ONCE, (MISSING,)),
        (Guarantee.AT_MOST_ONCE, (TWICE,)),
        (Guarantee.NONE, ()),
    ],
)
def test_what_is_missing_and_what_is_repeated_depends_on_the_guarantee(
    guarantee: Guarantee, found: tuple[str, ...]
) -> None:
    assert judge(guarantee, Observation(3, received=[0, 2, 2])) == found


@pytest.mark.parametrize("guarantee", Guarantee)
def test_nothing_may_be_missing_when_nothing_failed(guarantee: Guarantee) -> None:
    assert judge(guarantee, Observation(3, received=[0, 2], disturbed=False)) == (MISSING,)


@pytest.mark.parametrize("guarantee", Guarantee)
def test_nobody_may_make_up_a_number(guarantee: Guarantee) -> None:
    seen = Observation(2, received=[0, 1, 2, -1])
    assert judge(guarantee, seen) == ("2 records are there that were never sent: -1, 2",)


@pytest.mark.parametrize("guarantee", Guarantee)
def test_nothing_pending_may_stay_behind(guarantee: Guarantee) -> None:
    seen = Observation(1, received=[0], pending=["transaction 7"])
    assert judge(guarantee, seen) == ("1 pending stayed behind: transaction 7",)


def test_nothing_may_be_visible_before_its_commit() -> None:
    seen = Observation(1, received=[0], too_early=[0])
    assert judge(Guarantee.EXACTLY_ONCE, seen) == ("1 record is visible before the first commit: 0",)


def test_of_many_findings_a_few_are_named() -> None:
    assert judge(Guarantee.EXACTLY_ONCE, Observation(2_000, received=[])) == (
        "2,000 records are missing: 0, 1, 2, 3, 4, …",
    )


def test_repetitions_are_counted_beyond_the_first() -> None:
    assert repetitions([0, 1, 1, 2, 2, 2]) == 3

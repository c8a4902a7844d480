"""A snapshot is deleted when no checkpoint is under way that may come to name its files."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.protocol.discarding import Discarding
from cutwater.protocol.ids import CheckpointId

FIVE, SIX, SEVEN, EIGHT = map(CheckpointId, (5, 6, 7, 8))


@pytest.fixture
def discarding() -> Discarding:
    return Discarding()


def test_with_nothing_under_way_it_goes_at_once(discarding: Discarding) -> None:
    assert discarding.wanted(FIVE) == [FIVE]


def test_it_waits_for_all_that_were_under_way(discarding: Discarding) -> None:
    discarding.triggered(SIX)
    discarding.triggered(SEVEN)
    assert discarding.wanted(FIVE) == []
    discarding.triggered(EIGHT)
    assert discarding.over(SIX) == []
    assert discarding.over(SEVEN) == [FIVE]


def test_a_checkpoint_that_is_given_up_is_not_waited_for_by_itself(discarding: Discarding) -> None:
    discarding.triggered(SIX)
    assert discarding.wanted(SIX) == [SIX]


def test_what_is_being_published_is_waited_for_though_it_was_given_up(discarding: Discarding) -> None:
    discarding.triggered(SEVEN)
    discarding.publishing(SEVEN)
    assert discarding.over(SEVEN) == []
    assert discarding.wanted(FIVE) == []
    assert discarding.published(SEVEN) == [FIVE]


def test_what_is_being_published_is_waited_for_though_its_attempt_has_ended(discarding: Discarding) -> None:
    discarding.triggered(SIX)
    discarding.triggered(SEVEN)
    discarding.publishing(SEVEN)
    discarding.wanted(FIVE)
    assert discarding.all_over() == []
    assert discarding.published(SEVEN) == [FIVE]


@given(
    st.lists(st.tuples(st.sampled_from(["trigger", "publish", "published", "over", "want", "end"]), st.integers(1, 6)))
)
def test_everything_goes_in_the_end_and_nothing_while_something_older_than_the_wish_is_under_way(
    steps: list[tuple[str, int]],
) -> None:
    discarding = Discarding()
    under_way: set[int] = set()
    publishing: set[int] = set()
    wanted: dict[int, set[int]] = {}

    def gone(ready: list[CheckpointId]) -> None:
        for checkpoint in ready:
            assert not wanted.pop(checkpoint) & under_way

    for step, number in steps:
        checkpoint = CheckpointId(number)
        match step:
            case "trigger":
                under_way.add(number)
                discarding.triggered(checkpoint)
            case "publish" if number in under_way:
                publishing.add(number)
                discarding.publishing(checkpoint)
            case "published" if number in publishing:
                publishing.discard(number)
                under_way.discard(number)
                gone(discarding.published(checkpoint))
            case "over":
                under_way -= {number} - publishing
                gone(discarding.over(checkpoint))
            case "want":
                wanted[number] = under_way - {number}
                gone(discarding.wanted(checkpoint))
            case "end":
                under_way &= publishing
                gone(discarding.all_over())
    under_way &= publishing
    gone(discarding.all_over())
    for number in list(publishing):
        publishing.discard(number)
        under_way.discard(number)
        gone(discarding.published(CheckpointId(number)))
    assert wanted == {}

"""A snapshot is deleted when no checkpoint is under way that may come to name its files."""

from __future__ import annotations

import pytest

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

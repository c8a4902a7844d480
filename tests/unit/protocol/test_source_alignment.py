"""Who waits for whom, when sources differ in event time?"""

import pytest

from cutwater.protocol.ids import TaskId
from cutwater.protocol.source_alignment import (
    LimitSource,
    Member,
    SourceAdvanced,
    SourceAlignment,
    SourceFinished,
    SourceIdled,
)
from cutwater.protocol.watermarks import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS

FAST, SLOW, OTHER = TaskId("fast", 0), TaskId("slow", 0), TaskId("other", 0)


def aligned(*events, drift=60, other="elsewhere"):
    alignment = SourceAlignment({FAST: Member("g", drift), SLOW: Member("g", drift), OTHER: Member(other, drift)})
    for event in events:
        alignment.handle(event)
    return alignment


def test_who_is_ahead_may_read_up_to_its_drift_beyond_the_slowest():
    alignment = aligned(SourceAdvanced(SLOW, 100))
    assert alignment.handle(SourceAdvanced(FAST, 900)) == [LimitSource(SLOW, 960)]
    assert alignment.handle(SourceAdvanced(SLOW, 200)) == [LimitSource(FAST, 260)]


def test_before_its_first_watermark_a_task_holds_the_others_where_they_are():
    assert aligned().handle(SourceAdvanced(FAST, 5)) == [
        LimitSource(FAST, MIN_TIMESTAMP_MS + 60),
        LimitSource(SLOW, 65),
    ]


@pytest.mark.parametrize("gone", [SourceIdled(SLOW), SourceFinished(SLOW)])
def test_who_is_idle_or_finished_holds_nobody_back(gone):
    alignment = aligned(SourceAdvanced(SLOW, 100), SourceAdvanced(FAST, 900))
    assert LimitSource(FAST, None) in alignment.handle(gone)


def test_an_idle_task_counts_again_when_it_advances():
    alignment = aligned(SourceAdvanced(SLOW, 100), SourceAdvanced(FAST, 900), SourceIdled(SLOW))
    assert LimitSource(FAST, 160) in alignment.handle(SourceAdvanced(SLOW, 100))


def test_a_finished_task_is_not_heard_any_more():
    alignment = aligned(SourceFinished(SLOW))
    assert (alignment.handle(SourceAdvanced(SLOW, 1)), alignment.handle(SourceIdled(SLOW))) == ([], [])


def test_who_is_alone_in_its_group_is_told_that_it_may_read_all():
    assert aligned().handle(SourceAdvanced(OTHER, 5)) == [LimitSource(OTHER, None)]


def test_groups_do_not_know_of_each_other():
    alignment = aligned(SourceAdvanced(OTHER, 1), SourceAdvanced(SLOW, 1), SourceAdvanced(FAST, 1))
    assert alignment.handle(SourceAdvanced(OTHER, 10**9)) == []


def test_a_source_without_a_drift_is_nobodys_business():
    assert SourceAlignment({}).handle(SourceAdvanced(FAST, 10**9)) == []


def test_what_changes_nothing_sends_nothing():
    alignment = aligned(SourceAdvanced(SLOW, 100), SourceAdvanced(FAST, 900))
    assert alignment.handle(SourceAdvanced(SLOW, 100)) == []


def test_a_limit_does_not_run_past_the_end_of_time():
    alignment = aligned(SourceAdvanced(SLOW, 5), drift=MAX_TIMESTAMP_MS)
    assert alignment.handle(SourceAdvanced(FAST, 6)) == [LimitSource(SLOW, MAX_TIMESTAMP_MS)]

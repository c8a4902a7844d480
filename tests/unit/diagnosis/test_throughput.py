"""What keeps a job from going faster is named; what doesn't isn't."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.diagnosis.statuses import GRAPH, NOW_MS, activity, job, task

from cutwater.diagnosis.doctor import diagnose
from cutwater.diagnosis.finding import Case, Finding, Severity
from cutwater.diagnosis.throughput import (
    bottleneck,
    falling_behind,
    held_up_by_its_end,
    skewed_records,
    skewed_state,
    source_is_the_limit,
    too_few_splits,
)
from cutwater.protocol.lifecycle import JobState
from cutwater.status import ChainStatus, JobStatus, OperatorStateStatus, OperatorStatus


def only(findings: list[Finding]) -> Finding:
    (found,) = findings
    return found


def test_the_operator_that_keeps_its_slot_busy_is_the_bottleneck() -> None:
    busy = task("numbers[0]", busy_share=0.96, operators=(activity("numbers", 0.02), activity("slow", 0.94)))
    found = only(list(bottleneck(Case(job(changed=[busy, task("count[0]", busy_share=0.02)])))))
    assert found == Finding(
        Severity.WARNING,
        'map(slow) "slow" (job.py:2) is the bottleneck: it keeps 1 of 2 slots busy: a Python function that is called '
        "for every record",
        "numbers[0] is busy 96 % of the time, its slot 98 %; this operator alone 94 %",
        "use map_batches or column expressions, which do many records in one call; if the function waits for "
        "something, async_map; else more slots: `cutwater rescale`",
        "numbers[0]",
    )


def test_a_slot_that_two_tasks_fill_together_is_named_by_the_busier_one() -> None:
    tasks = [task("numbers[0]", busy_share=0.4), task("count[0]", busy_share=0.55, operators=(activity("count", 0.5),))]
    found = only(list(bottleneck(Case(job(changed=tasks)))))
    assert found.title == "count (job.py:3) is the bottleneck: it keeps 1 of 2 slots busy"
    assert "Python" not in found.title


def test_the_same_operator_in_all_slots_is_one_bottleneck() -> None:
    tasks = [task(f"count[{n}]", busy_share=0.97, operators=(activity("count", 0.9),)) for n in (0, 1)]
    assert "2 of 2 slots" in only(list(bottleneck(Case(job(changed=tasks))))).title


def test_shares_that_are_not_known_are_those_of_the_whole_attempt() -> None:
    unknown = {"busy_share": 0.0, "idle_share": 0.0, "idle_seconds": 1.0}
    tasks = [task("count[0]", busy_seconds=99.0, **unknown), task("numbers[0]", busy_seconds=0.0, **unknown)]
    assert only(list(bottleneck(Case(job(changed=tasks))))).task == "count[0]"


@pytest.mark.parametrize(
    "status",
    [
        job(),
        job(changed=[task("count[0]", busy_share=0.6)]),
        job(changed=[task("count[0]", busy_share=0.97)], running_seconds=1.0),
        job(changed=[task("count[0]", busy_share=0.97)], state=JobState.RESTARTING),
    ],
)
def test_without_a_slot_that_is_busy_for_a_while_there_is_no_bottleneck(status: JobStatus) -> None:
    assert list(bottleneck(Case(status))) == []


HELD_UP = {"busy_share": 0.05, "idle_share": 0.0, "backpressured_share": 0.9}


def test_a_task_at_the_end_that_waits_for_room_has_a_slow_sink() -> None:
    status = job(changed=[task("count[0]", **HELD_UP), task("count[1]", **HELD_UP), task("numbers[0]", **HELD_UP)])
    found = only(list(held_up_by_its_end(Case(status))))
    assert found.title == 'the sink kafka "end" (job.py:4) is slow: it takes records more slowly than they come'
    assert found.evidence == "count[0] waits for room 90 % of the time, and is busy only 5 %"
    assert diagnose(status)[0] == found


def test_who_waits_for_a_busy_receiver_is_not_held_up_by_its_own_end() -> None:
    status = job(changed=[task("numbers[0]", **HELD_UP), task("count[1]", busy_share=0.95)])
    assert list(held_up_by_its_end(Case(status))) == []


def test_calls_that_are_all_under_way_are_named() -> None:
    asks = ChainStatus("numbers", "numbers → ask", 2, (OperatorStatus("ask", "async_map(ask)", "operator"),))
    status = job(graph=replace(GRAPH, chains=(asks, GRAPH.chains[1])), changed=[task("numbers[0]", **HELD_UP)])
    assert only(list(held_up_by_its_end(Case(status)))).title.startswith('the calls of async_map(ask) "ask" are slow')


def test_a_hot_key_is_told_by_the_task_that_gets_most_records() -> None:
    hot = task("count[1]", records_in_per_second=9_000.0, busy_share=0.95)
    found = only(list(skewed_records(Case(job(changed=[hot])))))
    assert (found.severity, found.task) == (Severity.WARNING, "count[1]")
    assert found.title.endswith("a few keys have most of the records")
    assert found.evidence == "18.0 times as many as the others on average"


def test_uneven_splits_are_no_hot_key_and_hurt_only_a_busy_slot() -> None:
    found = only(list(skewed_records(Case(job(changed=[task("numbers[0]", records_in_per_second=9_000.0)])))))
    assert found.severity is Severity.INFO
    assert ".rebalance()" in found.suggestion


@pytest.mark.parametrize(
    "hot",
    [task("count[1]", records_in_per_second=900.0), task("count[1]", records_in_per_second=0.0, records_in=60_000)],
)
def test_a_task_that_gets_somewhat_more_is_not_skewed(hot: object) -> None:
    assert list(skewed_records(Case(job(changed=[hot])))) == []


def test_a_few_records_tell_nothing_about_skew() -> None:
    few = [task(f"{chain}[{n}]", records_in=9 * n, records_out=0) for chain in ("numbers", "count") for n in (0, 1)]
    assert list(skewed_records(Case(job(changed=few)))) == []


def test_a_key_group_with_most_of_the_state_is_told() -> None:
    state = OperatorStateStatus("count", 10 << 20, largest_group=17, largest_group_bytes=6 << 20)
    found = only(list(skewed_state(Case(job(operator_states=(state,))))))
    assert found.title.startswith('key group 17 of "count" is much larger')
    assert found.evidence == "it has 60 % of 10,485,760 bytes"
    small = replace(state, size_bytes=1000, largest_group_bytes=900)
    even = replace(state, largest_group_bytes=1 << 20)
    assert list(skewed_state(Case(job(operator_states=(small, even))))) == []


def test_source_tasks_that_never_read_anything_are_told() -> None:
    unused = task("numbers[1]", records_in=0, records_out=0, idle_share=0.99, busy_share=0.0)
    status = job(changed=[unused, task("numbers[0]", busy_share=0.9)])
    found = only(list(too_few_splits(Case(status))))
    assert found.title == 'only 1 of the 2 tasks of "numbers → map(slow)" read: there are too few splits'
    assert (found.severity, found.task) == (Severity.WARNING, "numbers[1]")
    assert list(too_few_splits(Case(job()))) == []


def test_lag_that_grows_is_told_with_how_long_it_takes_to_read() -> None:
    earlier = job(changed=[task("numbers[0]", lag={"0": 10_000})], as_of_ms=NOW_MS - 10_000)
    now = job(changed=[task("numbers[0]", lag={"0": 40_000})])
    found = only(list(falling_behind(Case(now, earlier))))
    assert found.severity is Severity.WARNING
    assert found.evidence == "40,000 records wait, 30,000 more than 10 s ago; at the present rate they take 80 s"
    assert list(falling_behind(Case(earlier, earlier))) == []


def test_much_lag_is_worth_knowing_also_when_nobody_looked_before() -> None:
    behind = job(changed=[task("numbers[0]", lag={"0": 400_000})])
    assert only(list(falling_behind(Case(behind)))).severity is Severity.INFO


def test_records_that_wait_while_all_tasks_rest_are_the_source_s_limit() -> None:
    waits = job(changed=[task("numbers[0]", lag={"0": 400_000})])
    assert only(list(source_is_the_limit(Case(waits)))).title.startswith(
        'the source "numbers → map(slow)" is the limit'
    )
    busy = job(changed=[task("numbers[0]", lag={"0": 400_000}, busy_share=0.9)])
    assert list(source_is_the_limit(Case(busy))) == []
    assert list(source_is_the_limit(Case(job()))) == []


def test_a_healthy_job_is_called_healthy_with_figures() -> None:
    found = only(diagnose(job()))
    assert found.severity is Severity.HEALTHY
    assert found.evidence == "the busiest slot is busy 40 % of the time; the last checkpoint took 40 ms; 0 restarts"

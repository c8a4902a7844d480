"""What does a running job say on its own, and how often?"""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

import cutwater as cw
from cutwater.config import JobOptions
from cutwater.deploy.announcer import Announcer
from cutwater.graph.model import LogicalGraph
from cutwater.graph.plan import JobPlan
from cutwater.protocol.lifecycle import JobState
from cutwater.status import JobStatus, RecoveryStatus

RUNNING = JobStatus("orders", "orders", JobState.RUNNING, attempt=1)
DEPLOYING = JobStatus("orders", "orders", JobState.DEPLOYING, attempt=1)


@pytest.fixture
def announcer(caplog: pytest.LogCaptureFixture) -> Announcer:
    caplog.set_level(logging.INFO, logger="cutwater")
    return Announcer(JobPlan.of("orders", "orders", LogicalGraph(), JobOptions(), ()))


def failed(attempt: int, deployed_seconds: float | None = 1.0) -> RecoveryStatus:
    return RecoveryStatus(attempt, f"cause {attempt}", 0.0, deployed_seconds=deployed_seconds)


def test_a_long_open_is_told_less_and_less_often(announcer: Announcer, caplog: pytest.LogCaptureFixture) -> None:
    for seconds in range(0, 401, 5):
        waiting_for = f'open of operator "model" in slot a since {seconds} s'
        announcer.update(replace(DEPLOYING, waiting_for=waiting_for), float(seconds))
    said = [message.rpartition(" since ")[2] for message in caplog.messages]
    assert said == ["10 s", "20 s", "40 s", "80 s", "160 s", "320 s"]
    assert caplog.messages[0].startswith('job "orders": waiting for open of operator "model" in slot a')


def test_the_wait_for_slots_is_no_wait_for_an_open(announcer: Announcer, caplog: pytest.LogCaptureFixture) -> None:
    waiting = replace(RUNNING, state=JobState.WAITING_FOR_SLOTS, waiting_for="1 of 2 slots")
    for seconds in range(100):
        announcer.update(waiting, float(seconds))
    announcer.update(replace(DEPLOYING, waiting_for="the tasks in slot a since 0 s"), 100.0)
    assert len(caplog.messages) == 1


def test_each_recovery_and_warning_is_told_once_though_only_the_newest_are_kept(
    announcer: Announcer, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(1, 8):
        kept = tuple(failed(attempt) for attempt in range(max(1, number - 1), number + 1))
        warnings = tuple(f"warning {one}" for one in range(max(1, number - 1), number + 1))
        status = replace(RUNNING, recoveries=kept, restarts=number, warnings=warnings, warnings_total=number)
        announcer.update(status, 0.0)
        announcer.update(status, 0.0)
    causes = [
        f'job "orders": attempt {n} failed: cause {n}; going on from the beginning after 1.00 s' for n in range(1, 8)
    ]
    assert [message for message in caplog.messages if "failed" in message] == causes
    assert [message for message in caplog.messages if "warning" in message] == [
        f'job "orders": warning {number}' for number in range(1, 8)
    ]


def test_a_failure_before_any_attempt_has_no_number(announcer: Announcer, caplog: pytest.LogCaptureFixture) -> None:
    announcer.update(replace(RUNNING, recoveries=(failed(0),), restarts=1), 0.0)
    assert caplog.messages == [
        'job "orders": no attempt could begin: cause 0; going on from the beginning after 1.00 s'
    ]


def test_a_recovery_that_failed_itself_is_told_once(announcer: Announcer, caplog: pytest.LogCaptureFixture) -> None:
    first, second = failed(1, None), failed(2, None)
    announcer.update(replace(RUNNING, recoveries=(first,), restarts=1), 0.0)
    assert caplog.messages == []
    announcer.update(replace(RUNNING, recoveries=(first, second), restarts=2), 0.0)
    announcer.update(replace(RUNNING, recoveries=(first, failed(2)), restarts=2), 0.0)
    announcer.update(replace(RUNNING, recoveries=(first, failed(2)), restarts=2), 0.0)
    assert [message.partition(";")[0] for message in caplog.messages] == [
        'job "orders": attempt 1 failed: cause 1',
        'job "orders": attempt 2 failed: cause 2',
    ]


def test_the_end_is_told_with_a_summary_and_where_the_output_is(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="cutwater")
    env = cw.Environment()
    env.from_collection(["a"], uid="in").sink_to(cw.sinks.text("/output"), uid="out")
    announcer = Announcer(JobPlan.of("orders", "orders", env._dataflow.graph, JobOptions(), ()))
    announcer.update(RUNNING, 10.0)
    announcer.update(replace(RUNNING, state=JobState.FINISHED, checkpoints_completed=2), 12.5)
    assert caplog.messages == [
        'job "orders": finished after 2.5 s; 2 checkpoints',
        'job "orders": its output is in /output',
    ]

"""Where can a job or a task go from where it is?"""

import pytest

from cutwater.errors import InternalError
from cutwater.protocol.lifecycle import (
    JOB_TRANSITIONS,
    TASK_TRANSITIONS,
    JobLifecycle,
    JobState,
    TaskLifecycle,
    TaskState,
)


def walk(*states: JobState) -> JobLifecycle:
    job = JobLifecycle()
    for state in states:
        job.move(state)
    return job


def test_a_job_that_restarts_once_can_finish():
    job = walk(
        JobState.WAITING_FOR_SLOTS,
        JobState.DEPLOYING,
        JobState.RUNNING,
        JobState.RESTARTING,
        JobState.DEPLOYING,
        JobState.RUNNING,
        JobState.FINISHING,
        JobState.FINISHED,
    )
    assert job.terminal


def test_an_undeclared_transition_is_a_bug_and_leaves_the_state_alone():
    job = JobLifecycle(JobState.FINISHED)
    with pytest.raises(InternalError, match='from "finished" to "running"'):
        job.move(JobState.RUNNING)
    assert job.state is JobState.FINISHED


def test_an_undeclared_transition_of_a_task_is_a_bug_too():
    with pytest.raises(InternalError):
        TaskLifecycle().move(TaskState.FINISHED)


def test_a_finished_task_can_still_fail_while_it_commits():
    task = TaskLifecycle()
    task.move(TaskState.RUNNING)
    task.move(TaskState.FINISHED)
    assert not task.terminal
    task.move(TaskState.FAILED)
    assert task.terminal


def test_every_state_declares_where_it_leads():
    assert (set(JOB_TRANSITIONS), set(TASK_TRANSITIONS)) == (set(JobState), set(TaskState))


def test_a_job_ends_finished_cancelled_or_failed():
    assert {state for state in JobState if state.terminal} == {JobState.FINISHED, JobState.CANCELLED, JobState.FAILED}


def test_every_job_that_has_not_ended_can_be_cancelled_and_can_fail():
    live = [state for state in JobState if not state.terminal and state is not JobState.CANCELLING]
    assert all({JobState.CANCELLING, JobState.FAILED} <= JOB_TRANSITIONS[state] for state in live)

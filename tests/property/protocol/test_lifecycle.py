from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cutwater.errors import InternalError
from cutwater.protocol.lifecycle import JOB_TRANSITIONS, TASK_TRANSITIONS, JobLifecycle, JobState, TaskState


@given(st.lists(st.sampled_from(list(JobState)), max_size=30))
def test_a_job_is_only_where_declared_steps_lead_and_never_leaves_a_terminal_state(moves: list[JobState]) -> None:
    lifecycle = JobLifecycle()
    expected = JobState.CREATED
    for to in moves:
        allowed = to in JOB_TRANSITIONS[expected]
        try:
            lifecycle.move(to)
            assert allowed
            expected = to
        except InternalError:
            assert not allowed
        assert lifecycle.state is expected
        assert lifecycle.terminal == (expected in (JobState.FINISHED, JobState.CANCELLED, JobState.FAILED))


def test_every_state_can_be_reached_and_every_state_leads_to_an_end() -> None:
    for transitions, first in ((JOB_TRANSITIONS, JobState.CREATED), (TASK_TRANSITIONS, TaskState.DEPLOYED)):
        reached, frontier = {first}, [first]
        while frontier:
            for to in transitions[frontier.pop()]:
                if to not in reached:
                    reached.add(to)
                    frontier.append(to)
        assert reached == set(transitions)
        for state in transitions:
            seen, frontier = {state}, [state]
            while frontier:
                for to in transitions[frontier.pop()]:
                    if to not in seen:
                        seen.add(to)
                        frontier.append(to)
            assert any(not transitions[end] for end in seen), f"{state} never ends"

"""Is a channel that hangs found by the production code, in virtual time?"""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest

from cutwater.protocol.connection_liveness import ConnectionLiveness
from cutwater.testing.simulation.run import Outcome, Run

pytestmark = pytest.mark.simulation

JOB_WITHOUT_CHECKPOINTS = "at_most_once"


def play_with_a_hang(seed: int, job: str) -> tuple[Outcome, int]:
    """A world without other faults in which one channel hangs as soon as there is one; and how many hung."""
    run = Run(seed, job, trace=False, calm=True)
    run.disturbed = True
    hung: list[Any] = []

    def hang() -> None:
        channels = run.network.channels()
        if channels:
            hung.append(run.world.random.choice(channels))
            hung[-1].hang()
        elif run.world.now < 5.0:
            run.world.after(0.001, hang)

    run.world.after(0.0, hang)
    return run.play(), len(hung)


@pytest.mark.parametrize("job", ["rebalance", "union", JOB_WITHOUT_CHECKPOINTS])
def test_a_job_goes_on_after_a_channel_hung(job: str) -> None:
    played = [play_with_a_hang(seed, job) for seed in range(12)]
    assert [outcome.broken for outcome, _ in played] == [None] * len(played)
    hung = [outcome for outcome, hangs in played if hangs]
    assert len(hung) >= 6
    assert any(outcome.attempts > 1 for outcome in hung)


def test_without_looking_for_hanging_channels_a_job_without_checkpoints_is_stuck() -> None:
    with patch.object(ConnectionLiveness, "handle", lambda self, event: []):
        broken = [play_with_a_hang(seed, JOB_WITHOUT_CHECKPOINTS)[0].broken for seed in range(12)]
    assert any(problem is not None and "never ends" in problem for problem in broken)

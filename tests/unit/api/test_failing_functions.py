"""What does a function that raises cost its author: how many attempts, and where does the cause stand?"""

from __future__ import annotations

from typing import Any

import pytest

import cutwater as cw
from cutwater.errors import JobFailedError
from cutwater.testing.harness import LocalLauncher

CHECKPOINTS = cw.Checkpoints(every="1s", storage="file:///nowhere")  # a name only: a LocalLauncher has no disk


def broken(record: int) -> Any:
    if record == 2:
        raise ValueError("two is too many")
    return record


def failure_of(*, collects: bool = False, **options: Any) -> tuple[JobFailedError, tuple[cw.JobStatus, ...]]:
    launcher = LocalLauncher()
    kept = []

    class Keeping:
        def launch(self, job: Any, launch_options: Any) -> Any:
            kept.append(launcher.launch(job, launch_options))
            return kept[-1]

    env = cw.Environment(launcher=Keeping(), **options)
    stream = env.from_collection([1, 2, 3]).map(broken)
    if not collects:
        stream.sink_to(cw.sinks.discard())
    with pytest.raises(JobFailedError) as raised:
        stream.execute_and_collect() if collects else env.execute("broken")
    return raised.value, tuple(job.status() for job in kept)


@pytest.mark.parametrize(
    ("options", "attempts"),
    [
        ({}, 1),
        ({"collects": True}, 1),
        ({"collects": True, "checkpoints": CHECKPOINTS}, 1),
        ({"checkpoints": CHECKPOINTS}, 2),
        ({"restart": cw.restart.none()}, 1),
        ({"restart": cw.restart.fixed_delay(attempts=4, delay="1s")}, 5),
        ({"restart": cw.restart.fixed_delay(attempts=4, delay="1s"), "collects": True}, 5),
    ],
    ids=["plain", "collected", "collected, storage", "storage", "none", "asked for", "asked for, collected"],
)
def test_a_record_that_fails_again_is_tried_as_often_as_makes_sense(options: Any, attempts: int) -> None:
    _, (status,) = failure_of(**options)
    assert status.attempt == attempts


def test_the_cause_stands_in_the_first_line_of_everything_that_is_told() -> None:
    failure, (status,) = failure_of(checkpoints=CHECKPOINTS)
    told = [str(failure), str(failure.__cause__), *(recovery.cause for recovery in status.recoveries)]
    assert len(told) == 3
    assert all("ValueError: two is too many" in text.splitlines()[0] for text in told)


def test_why_the_job_does_not_try_again_is_said() -> None:
    failure, _ = failure_of(checkpoints=CHECKPOINTS)
    assert "the same failure came twice in a row" in failure.detail

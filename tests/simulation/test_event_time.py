"""Event time in whole jobs, written with the public API and run without Spark."""

from __future__ import annotations

from typing import Any

import pytest

import cutwater as cw
from cutwater.api import watermarks
from cutwater.api.environment import Environment
from cutwater.api.launching import LaunchOptions
from cutwater.config import Checkpoints
from cutwater.connectors import sinks, sources
from cutwater.errors import BadTimestampError
from cutwater.graph.plan import JobPlan
from cutwater.protocol.watermarks import MAX_TIMESTAMP_MS
from cutwater.runtime import messages
from cutwater.status import JobStatus
from cutwater.testing.harness import LocalJob, LocalLauncher

pytestmark = pytest.mark.simulation


class StoppingLauncher(LocalLauncher):
    """Stops its first job after some time, and lets the others run to their end."""

    def __init__(self, *, seed: int, stop_seconds: float) -> None:
        super().__init__(seed=seed)
        self._stop_seconds: float | None = stop_seconds

    def launch(self, job: JobPlan, options: LaunchOptions) -> LocalJob:
        started = LocalJob(job, options, self._seed, self._files)
        self._files = started.storage
        if self._stop_seconds is not None:
            started.world.at(self._stop_seconds, lambda: self._stop(started))
            self._stop_seconds = None
        started.play()
        return started

    @staticmethod
    def _stop(job: LocalJob) -> None:
        node = job.cluster.nodes[0]
        node.coordinator.stop()
        node.process.wake()


class Alarm:
    """Rings 20 ms of event time after each record, and tells what time it was."""

    def process(self, record: Any, context: Any) -> Any:
        context.register_event_timer(context.timestamp_ms + 20)
        return ()

    def on_timer(self, time_ms: int, context: Any) -> Any:
        yield time_ms - 20, context.watermark_ms


def test_the_end_of_a_job_shows_where_time_was_and_what_was_dropped() -> None:
    status = run([(key, time) for time in range(40) for key in "ab"] + [("a", None), ("b", 10**15)])
    assert {task.watermark_ms for task in status.tasks} == {MAX_TIMESTAMP_MS}
    assert len(status.tasks) >= 4
    assert status.bad_timestamps == 2


def test_the_end_of_a_job_shows_how_many_records_were_late() -> None:
    env = Environment(parallelism=1, launcher=LocalLauncher())
    records = [("a", 5), ("a", 100), ("a", 6), ("a", 200), ("a", 7), ("a", 150)]
    # In a single split, one record a batch: a watermark follows each.
    source = sources.generator(records.__getitem__, count=6, per_second=100, splits=1)
    stream = env.from_source(source).assign_timestamps(second, watermarks.monotonous(every="0s"))
    sink = sinks.collect()
    stream.key_by(first).window(cw.tumbling("10ms")).count().sink_to(sink)
    status = env.execute("late").status
    assert (len(sink.collected.take()), status.late_records) == (3, 3)


def run(records: list[Any]) -> JobStatus:
    env = Environment(parallelism=2, launcher=LocalLauncher())
    stream = env.from_collection(records).assign_timestamps(second, watermarks.monotonous(bad_timestamps="drop"))
    stream.key_by(first).process(lambda record, context: [record]).sink_to(sinks.collect())
    return env.execute("shown").status


def first(record: Any) -> Any:
    return record[0]


def second(record: Any) -> Any:
    return record[1]


def test_a_timestamp_in_the_far_future_fails_the_job_by_name_and_no_restart_is_tried() -> None:
    env = Environment(launcher=LocalLauncher())
    stream = env.from_collection([("a", 5), ("b", 10**15)]).assign_timestamps(second, watermarks.monotonous())
    with pytest.raises(BadTimestampError, match="far future") as failure:
        stream.execute_and_collect()
    assert "the record: ('b', 1000000000000000)" in failure.value.detail


@pytest.mark.parametrize("seed", range(6))
def test_a_stopped_job_does_not_end_time_and_a_restored_one_goes_on_with_it(seed: int) -> None:
    launcher = StoppingLauncher(seed=seed, stop_seconds=0.3)
    stopped, stopped_status = rung(launcher, restore=None)
    resumed, resumed_status = rung(launcher, restore="latest")
    # What the last snapshot holds is committed again, to a collector that has not seen it.
    new = set(resumed) - set(stopped)
    assert sorted(time for time, _ in {*stopped, *new}) == list(range(400))
    assert stopped
    assert new
    assert max(now for _, now in stopped) < 400
    assert all(time + 20 <= now for time, now in {*stopped, *new})
    assert min(now for _, now in new) >= max(now for _, now in stopped)
    assert max(task.watermark_ms or 0 for task in stopped_status.tasks) < 400
    assert {task.watermark_ms for task in resumed_status.tasks} == {MAX_TIMESTAMP_MS}


def rung(launcher: LocalLauncher, restore: str | None) -> tuple[list[Any], JobStatus]:
    checkpoints = Checkpoints(every="50ms", storage="file:///nowhere")
    env = Environment(parallelism=2, launcher=launcher, checkpoints=checkpoints)
    numbers = env.from_source(sources.generator(int, count=400, per_second=500, splits=3), uid="numbers")
    timed = numbers.assign_timestamps(int, watermarks.bounded("5ms", every="1ms"))
    sink = sinks.collect()
    timed.key_by(lambda number: number % 7).process(Alarm(), uid="alarm").sink_to(sink, uid="out")
    status = env.submit("alarm", restore=restore).wait().status
    return sink.collected.take(), status


@pytest.mark.parametrize("seed", range(4))
def test_a_source_that_is_ahead_waits_for_the_slow_one(seed: int) -> None:
    launcher = LimitsSeen(seed=seed)
    env = Environment(parallelism=2, launcher=launcher)
    strategy = watermarks.monotonous(max_drift="50ms", every="0s")
    fast = env.from_source(sources.generator(int, count=20_000, splits=2), uid="fast")
    slow = env.from_source(sources.generator(int, count=300, per_second=1000, splits=2), uid="slow")
    sink = sinks.collect()
    left = fast.assign_timestamps(int, strategy).map(lambda time: ("fast", time))
    right = slow.assign_timestamps(int, strategy).map(lambda time: ("slow", time))
    left.union(right).map(lambda record: record, parallelism=1).sink_to(sink, parallelism=1)
    env.execute("aligned")
    found = sink.collected.take()
    near_end = next(index for index, (source, time) in enumerate(found) if source == "slow" and time >= 250)
    assert len(found) == 20_300
    # A batch has 1,024 records, every other of the fast source's: that much a split may go beyond its limit.
    assert max(time for source, time in found[:near_end] if source == "fast") < 300 + 50 + 2 * 1024
    assert launcher.limits[-1] is None


class LimitsSeen(LocalLauncher):
    """Writes down the limits that were sent."""

    def __init__(self, *, seed: int) -> None:
        super().__init__(seed=seed)
        self.limits: list[int | None] = []

    def launch(self, job: JobPlan, options: LaunchOptions) -> LocalJob:
        started = LocalJob(job, options, self._seed, None)
        started.checker.coordinator_says = self._heard  # type: ignore[method-assign]
        started.play()
        return started

    def _heard(self, who: str, message: messages.FromCoordinator) -> None:
        if isinstance(message, messages.TimeLimited):
            self.limits.append(message.timestamp_ms)

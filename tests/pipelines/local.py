"""How is a whole job killed, restored and rescaled without Spark?

On the production coordinator and slots in virtual time, as `LocalLauncher` runs them. A slot dies some moments after
so many checkpoints: then the job recovers by itself, or it gives up and a new run goes on from the newest snapshot, at
any parallelism. Either way the run must have had a snapshot to go on from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import cutwater as cw
from cutwater.api.launching import LaunchOptions
from cutwater.graph.plan import JobPlan
from cutwater.testing.harness import LocalJob, LocalLauncher

Build = Callable[[cw.Environment], cw.DataStream]

CHECKPOINT_EVERY = "2ms"
LOOK_SECONDS = 0.0005
#: How long after the checkpoint, on average: some records have been read since.
DELAY_SECONDS = 0.004


class KillingLauncher(LocalLauncher):
    """Kills a slot soon after each of these numbers of checkpoints has completed."""

    def __init__(self, *, seed: int, kill_after_checkpoints: Sequence[int] = ()) -> None:
        super().__init__(seed=seed)
        self.kill_after_checkpoints = tuple(kill_after_checkpoints)

    def launch(self, job: JobPlan, options: LaunchOptions) -> LocalJob:
        started = LocalJob(job, options, self._seed, self._files)
        self._files = started.storage
        _kill_after(started, self.kill_after_checkpoints)
        started.play()
        return started


def _kill_after(job: LocalJob, checkpoints: tuple[int, ...]) -> None:
    """Looks again and again until it is time for the first of them."""
    if not checkpoints:
        return
    if job.cluster.nodes and job.status().checkpoints_completed >= checkpoints[0]:
        job.world.after(job.world.delay(DELAY_SECONDS), partial(_kill_a_slot, job))
        checkpoints = checkpoints[1:]
    job.world.after(LOOK_SECONDS, partial(_kill_after, job, checkpoints))


def _kill_a_slot(job: LocalJob) -> None:
    if job.cluster.slots:
        job.world.random.choice(job.cluster.slots).process.end("killed")


class LocalRuns:
    """The runs of one job under one seed."""

    def __init__(self, build: Build, *, seed: int) -> None:
        self._build = build
        self._seed = seed

    def plain(self, *, parallelism: int) -> list[Any]:
        """To which nothing happens."""
        results, job = self._run(KillingLauncher(seed=self._seed), cw.sinks.collect(), parallelism=parallelism)
        assert job.restarts == 0
        return results

    def killed(self, *, parallelism: int, after_checkpoints: Sequence[int] = (1, 3)) -> list[Any]:
        """Slots die in the middle; the job recovers by itself."""
        launcher = KillingLauncher(seed=self._seed, kill_after_checkpoints=after_checkpoints)
        results, job = self._run(launcher, cw.sinks.collect(), parallelism=parallelism)
        restored = [recovery.restored_checkpoint for recovery in job.status.recoveries]
        assert restored, "it was over before anything was killed"
        assert None not in restored, "it began anew, instead of going on from a snapshot"
        return results

    def rescaled(self, *, before: int, after: int, after_checkpoints: int = 2) -> list[Any]:
        """All is lost half-way; a new run with other parallelism goes on from the newest snapshot."""
        launcher = KillingLauncher(seed=self._seed, kill_after_checkpoints=[after_checkpoints])
        sink = cw.sinks.collect()
        try:
            self._run(launcher, sink, parallelism=before, restart=cw.restart.none())
        except cw.errors.CutwaterError:
            pass
        else:
            raise AssertionError("it was over before anything was killed")
        launcher.kill_after_checkpoints = ()
        results, _ = self._run(launcher, sink, parallelism=after, restore="latest")
        return results

    def _run(
        self, launcher: LocalLauncher, sink: Any, *, parallelism: int, restore: str | None = None, **options: Any
    ) -> tuple[list[Any], cw.JobResult]:
        env = cw.Environment(
            parallelism=parallelism,
            launcher=launcher,
            # The folder is a name only: a LocalLauncher keeps its files in memory.
            checkpoints=cw.Checkpoints(every=CHECKPOINT_EVERY, storage="file:///nowhere"),
            **{"restart": cw.restart.fixed_delay(attempts=20, delay="0s"), **options},
        )
        self._build(env).sink_to(sink, uid="results")
        job = env.execute("local", restore=restore)
        return sink.collected.take(), job

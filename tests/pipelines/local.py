"""How is a whole job killed, restored and rescaled without Spark?

On the production coordinator and slots in virtual time, as `LocalLauncher` runs them. The first run tells how long the
job takes; after that, something is done to it at a fraction of that time: a slot dies and the job recovers, or all is
lost and a new run goes on from the newest snapshot, at any parallelism. Snapshots are frequent, so that some of them
lie between any two batches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import cutwater as cw
from cutwater.api.launching import LaunchOptions
from cutwater.graph.plan import JobPlan
from cutwater.testing.harness import LocalJob, LocalLauncher

Build = Callable[[cw.Environment], cw.DataStream]

EVERY_SECONDS = 0.02


class KillingLauncher(LocalLauncher):
    """Kills a slot at each of these moments of virtual time."""

    def __init__(self, *, seed: int, kill_at_seconds: Sequence[float] = ()) -> None:
        super().__init__(seed=seed)
        self.kill_at_seconds = tuple(kill_at_seconds)

    def launch(self, job: JobPlan, options: LaunchOptions) -> LocalJob:
        started = LocalJob(job, options, self._seed, self._files)
        self._files = started.storage
        for moment in self.kill_at_seconds:
            started.world.at(moment, lambda: _kill_a_slot(started))
        started.play()
        return started


def _kill_a_slot(job: LocalJob) -> None:
    slots = job.cluster.slots
    if slots:
        job.world.random.choice(slots).process.end("killed")


class LocalRuns:
    """The runs of one job under one seed."""

    def __init__(self, build: Build, *, seed: int) -> None:
        self._build = build
        self._seed = seed
        self._plain_seconds: float | None = None

    def plain(self, *, parallelism: int) -> list[Any]:
        """To which nothing happens."""
        results, job = self._run(KillingLauncher(seed=self._seed), cw.sinks.collect(), parallelism=parallelism)
        assert job.restarts == 0
        self._plain_seconds = job.duration_seconds
        return results

    def killed(self, *, parallelism: int, kills: int = 2) -> list[Any]:
        """Slots die in the middle; the job recovers by itself."""
        moments = [self._moment((kill + 1) / (kills + 1), parallelism) for kill in range(kills)]
        launcher = KillingLauncher(seed=self._seed, kill_at_seconds=moments)
        results, job = self._run(launcher, cw.sinks.collect(), parallelism=parallelism)
        assert job.restarts >= 1, "it was over before anything was killed"
        return results

    def rescaled(self, *, before: int, after: int, at: float = 0.5) -> list[Any]:
        """All is lost half-way; a new run with other parallelism goes on from the newest snapshot."""
        launcher = KillingLauncher(seed=self._seed, kill_at_seconds=[self._moment(at, before)])
        sink = cw.sinks.collect()
        try:
            self._run(launcher, sink, parallelism=before, restart=cw.restart.none())
        except cw.errors.CutwaterError:
            pass
        else:
            raise AssertionError("it was over before anything was killed")
        launcher.kill_at_seconds = ()
        results, _ = self._run(launcher, sink, parallelism=after, restore="latest")
        return results

    def _moment(self, fraction: float, parallelism: int) -> float:
        if self._plain_seconds is None:
            self.plain(parallelism=parallelism)
        assert self._plain_seconds is not None
        return self._plain_seconds * fraction

    def _run(
        self, launcher: LocalLauncher, sink: Any, *, parallelism: int, restore: str | None = None, **options: Any
    ) -> tuple[list[Any], cw.JobResult]:
        env = cw.Environment(
            parallelism=parallelism,
            launcher=launcher,
            # The folder is a name only: a LocalLauncher keeps its files in memory.
            checkpoints=cw.Checkpoints(every=EVERY_SECONDS, storage="file:///nowhere"),
            **{"restart": cw.restart.fixed_delay(attempts=20, delay="0s"), **options},
        )
        self._build(env).sink_to(sink, uid="results")
        job = env.execute("local", restore=restore)
        return sink.collected.take(), job

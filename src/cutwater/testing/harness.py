"""How does a user test a job without Spark, a cluster or waiting?

    launcher = LocalLauncher()
    env = cw.Environment(parallelism=2, launcher=launcher)
    assert env.from_collection([1, 2]).map(lambda n: n + 1).execute_and_collect() == [2, 3]

The job runs on the production coordinator and slots, in this process, in virtual time and without faults; a seed
decides the interleaving, so that a test can try many. Snapshots live in memory and last as long as the launcher: a job
can be restored from them. Sources and sinks are the job's own, and do what they do.

    env = cw.Environment(parallelism=2, launcher=LocalLauncher(faults=True, seed=17))

Before that, the job is played once with the crashes and delays of this seed, with sinks that stand in for its own. It
recovers by itself; if its output is not that of a run without failures, `execute` raises `SimulationBrokenError`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from random import Random
from typing import Any, NoReturn

import cloudpickle

from cutwater.api.launching import LaunchOptions
from cutwater.config import configuration_of
from cutwater.errors import InternalError, OperationsError
from cutwater.graph.plan import JobPlan
from cutwater.runtime.recovering import check_connectors, history_of, with_key_groups_restored
from cutwater.snapshots.store import SnapshotStore
from cutwater.status import CheckpointDetails, JobResult, JobStatus, LogLine
from cutwater.testing.simulation.cluster import Cluster, Watcher
from cutwater.testing.simulation.comparison import comparison_of
from cutwater.testing.simulation.conditions import draw_conditions
from cutwater.testing.simulation.network import Network
from cutwater.testing.simulation.storage import SimulatedStorage, below
from cutwater.testing.simulation.trace import Trace
from cutwater.testing.simulation.user_jobs import UserJob, check_seed
from cutwater.testing.simulation.world import InvariantBroken, World

#: A job that does more than this is taken to be endless.
EVENTS_MAX = 10_000_000
SECONDS_MAX = 86_400.0


class LocalLauncher:
    """Give it to `Environment(launcher=…)`. Used by one thread."""

    def __init__(self, *, seed: int = 0, faults: bool = False, compare: str = "multiset") -> None:
        """`compare`: how outputs are compared under faults; see `simulation.comparison`."""
        self._seed = seed
        self._faults = faults
        self._comparison = comparison_of(compare)
        self._files: SimulatedStorage | None = None

    def launch(self, job: JobPlan, options: LaunchOptions) -> LocalJob:
        """Runs the job to its end, here and now: its input must be bounded."""
        if self._faults:
            check_seed(UserJob(job, self._comparison), self._seed)
        started = LocalJob(job, options, self._seed, self._files)
        self._files = started.storage
        started.play(options.enough)
        return started


class LocalJob:
    """A `RunningJob` that has already ended."""

    def __init__(self, plan: JobPlan, options: LaunchOptions, seed: int, files: SimulatedStorage | None) -> None:
        random = Random(seed)
        conditions = draw_conditions(random, coordinator_may_fail=False, calm=True)
        self.world = World(conditions, random, Trace(on=False), events_max=EVENTS_MAX, seconds_max=SECONDS_MAX)
        self.storage = SimulatedStorage(self.world)
        self.storage.root = plan.options.checkpoints.storage
        if files is not None:
            self.storage.files = files.files
        self.network = Network(self.world)
        self.checker = Watcher()
        store = SnapshotStore(
            self.storage.files, plan.job_id, open_other=partial(below, self.storage.files, root=self.storage.root)
        )
        history = history_of(
            options.restore, store, allow_non_restored_state=options.allow_non_restored_state, claim=options.claim
        )
        check_connectors(plan, history, store)
        plan = with_key_groups_restored(plan, history, store)
        self.cluster = Cluster(self, plan, bytes(cloudpickle.dumps(plan)), history)
        self._plan = plan

    def play(self, enough: Callable[[], bool] | None = None) -> None:
        """To the end of the job, or until it is enough: then the job is cancelled."""
        self.cluster.start_coordinator()
        try:
            self.world.run(lambda: self.status().state.terminal or (enough is not None and enough()))
            if not self.status().state.terminal:
                self.cluster.nodes[0].coordinator.cancel()
                self.cluster.nodes[0].process.wake()
                self.world.run(lambda: self.status().state.terminal)
        except InvariantBroken as broken:
            raise InternalError(broken.invariant, detail=broken.detail) from broken

    @property
    def owner(self) -> int:
        return 1

    @property
    def job_id(self) -> str:
        return self._plan.job_id

    def status(self) -> JobStatus:
        return self.cluster.nodes[0].coordinator.status

    def checkpoint_details(self, checkpoint: int) -> CheckpointDetails | None:
        return self.cluster.nodes[0].coordinator.checkpoint_details(checkpoint)

    def logs(self, after: int) -> tuple[LogLine, ...]:
        """None: what the job writes is written here, by this process."""
        return ()

    def configuration(self) -> Mapping[str, Any]:
        return configuration_of(self._plan.options)

    def wait(self, timeout_seconds: float | None) -> JobResult:
        """Returns at once; raises what made the job fail."""
        failure = self.cluster.nodes[0].coordinator.failure
        if failure is not None:
            raise failure
        return JobResult(self.status(), self.world.now)

    def cancel(self) -> None:
        """It is over already."""

    def stop(self, *, savepoint: str | None, drain: bool, timeout_seconds: float | None) -> str:
        """It is over already."""
        return self._refuse("take a savepoint") if savepoint else ""

    def checkpoint(self, timeout_seconds: float | None) -> None:
        self._refuse("take a checkpoint")

    def savepoint(self, target: str, timeout_seconds: float | None) -> str:
        return self._refuse("take a savepoint")

    def rescale(self, parallelism: int, timeout_seconds: float | None) -> None:
        self._refuse("be rescaled")

    def _refuse(self, what: str) -> NoReturn:
        raise OperationsError(f"job {self._plan.name!r} can't {what}: it has ended")

"""What becomes of snapshots that are overtaken: by another driver, or by a newer checkpoint?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.unit.runtime.task_rig import StoppedClock

from cutwater.config import Checkpoints, JobOptions
from cutwater.errors import CutwaterError
from cutwater.graph.model import LogicalGraph
from cutwater.graph.plan import JobPlan
from cutwater.protocol.checkpoint_events import CheckpointKind
from cutwater.protocol.ids import AttemptNumber, CheckpointId, TaskId
from cutwater.runtime import messages
from cutwater.runtime.checkpointing import Checkpointing
from cutwater.runtime.job_status import StatusBoard
from cutwater.runtime.recovering import Recovered
from cutwater.runtime.seams import Background
from cutwater.snapshots.format import TaskSnapshot
from cutwater.snapshots.storage import MemoryStorage
from cutwater.snapshots.store import SnapshotStore

PLAN = JobPlan.of("orders", "orders", LogicalGraph(), JobOptions(checkpoints=Checkpoints(every=None)), ())
TASK = TaskId("count", 0)


class Inline:
    """Background work that is done before anything else, or fails."""

    def submit(self, work: Callable[[], Any], done: Callable[[Any, BaseException | None], None]) -> None:
        try:
            result = work()
        except CutwaterError as error:
            done(None, error)
        else:
            done(result, None)


class Reported:
    """Background work that is done at once, and reported when the test says so."""

    def __init__(self) -> None:
        self.reports: list[Callable[[], None]] = []

    def submit(self, work: Callable[[], Any], done: Callable[[Any, BaseException | None], None]) -> None:
        result = work()
        self.reports.append(lambda: done(result, None))


class Job:
    """Keeps what checkpointing says, and stops an attempt that failed."""

    def __init__(self, store: SnapshotStore, background: Background | None = None) -> None:
        self.checkpointing = Checkpointing(
            PLAN,
            self,
            clock=StoppedClock(),
            background=background or Inline(),
            store=store,
            board=StatusBoard(PLAN, StoppedClock()),
            new_token=lambda: "token",
        )
        self.answers: list[tuple[str, bool]] = []
        self.failures: list[str] = []
        self.settled = 0

    def tell_all(self, message: messages.FromCoordinator) -> None:
        pass

    def source_states(self) -> dict[str, bytes]:
        return {}

    def checkpoint_completed(self, checkpoint: CheckpointId, kind: CheckpointKind) -> None:
        pass

    def checkpoints_settled(self) -> None:
        self.settled += 1

    def attempt_failed(self, attempt: AttemptNumber, cause: CutwaterError) -> None:
        self.failures.append(cause.fact)
        self.checkpointing.stop()

    def request_answered(self, request: str, path: str, reason: str | None) -> None:
        self.answers.append((path, reason is None))


def test_a_driver_that_was_superseded_refuses_a_savepoint_and_leaves_nothing_of_it() -> None:
    storage, savepoints = MemoryStorage(), MemoryStorage()
    store = SnapshotStore(storage, "orders", open_other=lambda url: savepoints)
    attempt, _ = store.claim_attempt()
    job = Job(store)
    job.checkpointing.start(frozenset({TASK}), Recovered(attempt, CheckpointId(1), None))
    job.checkpointing.request(CheckpointKind.SAVEPOINT, "mine", target="memory://savepoints")
    savepoints.write("savepoint-orders-1-token/count-0-a1.state", b"state")
    SnapshotStore(storage, "orders").claim_attempt()
    written = messages.SnapshotWritten(attempt, CheckpointId(1), TASK, TaskSnapshot("count", 0, ()))
    job.checkpointing.written(written)
    refused = "savepoint 1 of attempt 1 was not published"
    assert (job.answers, job.failures, savepoints.list("")) == ([("", False)], [refused], [])


def test_a_job_does_not_end_before_a_checkpoint_that_its_last_one_overtook_is_deleted() -> None:
    storage, background = MemoryStorage(), Reported()
    store = SnapshotStore(storage, "orders")
    attempt, _ = store.claim_attempt()
    job = Job(store, background)
    job.checkpointing.start(frozenset({TASK}), Recovered(attempt, CheckpointId(1), None))
    background.reports.clear()
    for checkpoint, kind in enumerate((CheckpointKind.CHECKPOINT, CheckpointKind.FINAL), start=1):
        job.checkpointing.request(kind, kind.value)
        snapshot = TaskSnapshot("count", 0, ())
        job.checkpointing.written(messages.SnapshotWritten(attempt, CheckpointId(checkpoint), TASK, snapshot))
    older, final = background.reports
    final()
    assert (job.checkpointing.settled, job.settled) == (False, 0)
    older()
    assert (job.checkpointing.settled, job.settled) == (True, 1)
    manifests = [path for path in storage.list("orders") if "manifest" in path]
    assert manifests == ["orders/chk-2/manifest-a1.json"]

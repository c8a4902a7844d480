"""How does a checkpoint go, from its trigger to the journal, and who is told?

The shell around the pure `CheckpointCoordinator`: it collects what tasks and sources give to a checkpoint, publishes
manifests in the background and passes on the outcome. On the coordinator's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, assert_never

from cutwater.errors import AttemptFencedError, CutwaterError, OperationsError
from cutwater.graph.plan import JobPlan
from cutwater.protocol import checkpoint_events as events
from cutwater.protocol.checkpoint_coordinator import CheckpointCoordinator
from cutwater.protocol.checkpoint_events import CheckpointKind, CheckpointPolicy
from cutwater.protocol.discarding import Discarding
from cutwater.protocol.ids import AttemptNumber, CheckpointId, TaskId
from cutwater.runtime import messages
from cutwater.runtime.driver_side import DriverSide
from cutwater.runtime.job_status import StatusBoard
from cutwater.runtime.pending_manifests import PendingManifest
from cutwater.runtime.recovering import Recovered
from cutwater.runtime.seams import Background, Clock
from cutwater.snapshots.disposal import dispose
from cutwater.snapshots.format import TaskSnapshot
from cutwater.snapshots.names import savepoint_name
from cutwater.snapshots.store import SnapshotStore
from cutwater.status import CheckpointDetails, CheckpointStatus

_TOKEN_LENGTH = 8
"""In the name of a savepoint."""


class CheckpointedJob(Protocol):
    """What checkpointing needs of the coordinator."""

    def tell_all(self, message: messages.FromCoordinator) -> None:
        """Sends to every slot of the running attempt."""
        ...

    def source_states(self) -> dict[str, bytes]:
        """The split assigner of each source operator, as it is now."""
        ...

    def checkpoint_completed(self, checkpoint: CheckpointId, kind: CheckpointKind) -> None:
        """It is in the journal. Before the slots hear of it."""
        ...

    def attempt_failed(self, attempt: AttemptNumber, cause: CutwaterError) -> None:
        """This attempt can't go on; another one than the running one is ignored."""
        ...

    def checkpoints_settled(self) -> None:
        """Nothing is under way in the driver any more that a job has to wait for before it ends."""
        ...

    def request_answered(self, request: str, path: str, reason: str | None) -> None:
        """A snapshot that was asked for is complete, and where a savepoint is; or there is none, for this reason."""
        ...


class Checkpointing:
    """All checkpoints of one job, through all its attempts."""

    def __init__(
        self,
        plan: JobPlan,
        job: CheckpointedJob,
        *,
        clock: Clock,
        background: Background,
        store: SnapshotStore,
        board: StatusBoard,
        new_token: Callable[[], str],
    ) -> None:
        #: Of the running attempt, and of the one that comes next.
        self.plan = plan
        self._job = job
        self._clock = clock
        self._background = background
        self._store = store
        self._board = board
        self._new_token = new_token
        self._machine = CheckpointCoordinator(_policy(plan))
        self._pending: dict[CheckpointId, PendingManifest] = {}
        self._attempt = AttemptNumber(0)
        self._discarding = Discarding()
        #: Where requested savepoints are to go, by request; and where those under way go.
        self._targets: dict[str, str] = {}
        self._savepoints: dict[CheckpointId, str] = {}
        #: A snapshot of someone else that is ours to delete as soon as we have enough of our own.
        self._claimed: str | None = None
        self._pickles_told: set[tuple[str, str, str]] = set()
        #: What completed checkpoints mean to sources and sinks in the driver.
        self.driver_side = DriverSide(store, background, failed=job.attempt_failed, idle=self._tell_if_settled)

    def start(self, tasks: frozenset[TaskId], recovered: Recovered) -> None:
        now = self._clock.now_seconds()
        self._attempt = attempt = recovered.attempt
        self._claimed = self._claimed or recovered.claimed
        self._background.submit(self._store.sweep, self._on_swept)
        restored, following = recovered.own_checkpoint, recovered.next_checkpoint
        self._handle(events.AttemptStarted(attempt, tasks, restored, following, now, recovered.kept))

    def stop(self) -> None:
        self._handle(events.AttemptStopped())
        self._pending.clear()
        self.driver_side.stop()
        self._discard(self._discarding.all_over())

    @property
    def settled(self) -> bool:
        """Sinks are done in the driver, and no manifest is being written, whose fate decides what is deleted."""
        return not self.driver_side.busy and not self._discarding.awaits_publication

    def _tell_if_settled(self) -> None:
        if self.settled:
            self._job.checkpoints_settled()

    def take_final(self) -> None:
        """All input was processed: one last checkpoint, with which the job ends."""
        self.request(CheckpointKind.FINAL, "final")

    def request(self, kind: CheckpointKind, request: str, *, target: str = "") -> None:
        """Takes a snapshot now, besides the periodic ones; the job hears of its fate. `target`: of a savepoint."""
        if target:
            self._targets[request] = target
        self._handle(events.CheckpointRequested(kind, request, self._clock.now_seconds()))

    def written(self, message: messages.SnapshotWritten) -> None:
        if (pending := self._pending.get(message.checkpoint)) is not None:
            pending.acknowledge(message.task, message.snapshot, self._clock.now_seconds())
        self._warn_of_pickles(message.snapshot)
        now = self._clock.now_seconds()
        self._handle(events.SnapshotAcknowledged(message.attempt, message.checkpoint, message.task, now))

    def refused(self, message: messages.SnapshotRefused) -> None:
        now = self._clock.now_seconds()
        self._handle(events.SnapshotDeclined(message.attempt, message.checkpoint, message.task, message.reason, now))

    def _warn_of_pickles(self, snapshot: TaskSnapshot) -> None:
        for operator, state, kind in set(snapshot.pickled) - self._pickles_told:
            self._pickles_told.add((operator, state, kind))
            self._board.warn(
                f'state "{state}" of operator "{operator}" is pickled: it can be read only as long as {kind} keeps '
                "its name and fields; give the state a type=…, and fields may come and go"
            )

    def under_way(self) -> tuple[CheckpointStatus, ...]:
        now = self._clock.now_seconds()
        return tuple(pending.under_way(now) for pending in self._pending.values())

    def details_under_way(self, checkpoint: int) -> CheckpointDetails | None:
        """From any thread."""
        pending = self._pending.get(CheckpointId(checkpoint))
        if pending is None:
            return None
        # Tasks acknowledge meanwhile: a copy, taken in one step, is read.
        return replace(pending, tasks=dict(pending.tasks)).details("under way", self._clock.now_seconds())

    def wake_at(self) -> float | None:
        return self._machine.wake_at()

    def tick(self, now_seconds: float) -> bool:
        """True when something was due."""
        wake = self._machine.wake_at()
        if wake is None or wake > now_seconds:
            return False
        self._handle(events.ClockTicked(now_seconds))
        return True

    def _handle(self, event: events.CheckpointEvent) -> None:
        for effect in self._machine.handle(event):
            match effect:
                case events.TriggerCheckpoint():
                    self._trigger(effect)
                case events.PublishManifest():
                    self._publish(effect)
                case events.NotifyCompleted():
                    self._completed(effect)
                case events.NotifyAborted():
                    self._aborted(effect)
                case events.DiscardSnapshot(checkpoint):
                    self._discard(self._discarding.wanted(checkpoint))
                case events.RefuseRequest(request, reason):
                    self._job.request_answered(request, "", reason)
                case events.FailAttempt(reason):
                    failure = OperationsError("too many checkpoints failed", detail=reason)
                    self._job.attempt_failed(self._attempt, failure)
                case _:
                    assert_never(effect)

    def _trigger(self, effect: events.TriggerCheckpoint) -> None:
        # The assigners' state and the trigger leave in one step: a split assigned before is in its reader's
        # snapshot, because the slot hears of it first; one assigned later is in neither.
        savepoint = ""
        if effect.kind is CheckpointKind.SAVEPOINT and effect.request is not None:
            name = savepoint_name(self.plan.job_id, effect.checkpoint, self._new_token()[:_TOKEN_LENGTH])
            savepoint = self._savepoints[effect.checkpoint] = f"{self._targets.pop(effect.request)}/{name}"
        self._discarding.triggered(effect.checkpoint)
        now, wall_ms, states = self._clock.now_seconds(), self._clock.wall_ms(), self._job.source_states()
        self._pending[effect.checkpoint] = PendingManifest(
            effect.checkpoint,
            effect.kind,
            effect.attempt,
            now,
            wall_ms,
            states,
            savepoint,
            tasks_total=sum(vertex.parallelism for vertex in self.plan.graph.vertices),
        )
        self._job.tell_all(messages.TriggerCheckpoint(effect.attempt, effect.checkpoint, wall_ms, savepoint))

    def _publish(self, effect: events.PublishManifest) -> None:
        """When sinks have committed in the driver what was complete before."""
        self.driver_side.when_idle(f"publish {effect.checkpoint}", partial(self._publish_now, effect))

    def _publish_now(self, effect: events.PublishManifest) -> None:
        pending = self._pending.get(effect.checkpoint)
        if pending is None:
            reason = "given up while a sink still committed the checkpoint before it in the driver"
            now = self._clock.now_seconds()
            self._handle(events.PublishFailed(effect.attempt, effect.checkpoint, reason, now))
            return
        manifest = pending.manifest(
            self.plan,
            self._clock.timestamp(),
            self._clock.now_seconds(),
            committed_in_driver=self.driver_side.committed_up_to,
        )
        store = self._store

        def done(_: Any, error: BaseException | None) -> None:
            self._discard(self._discarding.published(effect.checkpoint))
            self._on_published(pending, error)
            self._tell_if_settled()

        def publish() -> None:
            if pending.savepoint:
                store.publish_savepoint(pending.savepoint, manifest)
            else:
                store.publish(manifest)

        self._discarding.publishing(effect.checkpoint)
        self._background.submit(publish, done)

    def _on_published(self, pending: PendingManifest, error: BaseException | None) -> None:
        attempt, checkpoint, now = pending.attempt, pending.checkpoint, self._clock.now_seconds()
        if isinstance(error, AttemptFencedError):
            # An attempt of ours that has ended meanwhile is fenced by its own successor: that is as it should be.
            self._job.attempt_failed(attempt, error)
            if pending.savepoint:
                # By its path, as the successor may use its number again. No successor sweeps where savepoints are.
                self._discard_savepoint(pending.savepoint, checkpoint)
        elif error is not None:
            self._handle(events.PublishFailed(attempt, checkpoint, str(error), now))
        else:
            self._handle(events.ManifestPublished(attempt, checkpoint, now))

    def _completed(self, effect: events.NotifyCompleted) -> None:
        pending = self._pending.pop(effect.checkpoint)
        self._board.checkpoint(pending.details("completed", self._clock.now_seconds()), pending.tasks.values())
        if effect.kind is not CheckpointKind.SAVEPOINT:
            # What was prepared for a savepoint is committed with the next checkpoint: if the job failed before, it
            # would go back behind the savepoint, and everything committed with it would come twice.
            self.driver_side.completed(self.plan, pending)
            self._job.checkpoint_completed(effect.checkpoint, effect.kind)
            self._job.tell_all(messages.CheckpointCompleted(effect.attempt, effect.checkpoint))
            self._dispose_of_claimed()
        path = self._savepoints.pop(effect.checkpoint, "")
        if effect.request is not None:
            self._job.request_answered(effect.request, path, None)
        self._discard(self._discarding.over(effect.checkpoint))

    def _aborted(self, effect: events.NotifyAborted) -> None:
        pending = self._pending.pop(effect.checkpoint, None)
        if pending is not None:
            self._board.checkpoint(pending.details(effect.reason, self._clock.now_seconds()))
        self._job.tell_all(messages.CheckpointAborted(effect.attempt, effect.checkpoint))
        if effect.request is not None:
            self._job.request_answered(effect.request, "", effect.reason)
        self._discard(self._discarding.over(effect.checkpoint))

    def _on_swept(self, _: Any, error: BaseException | None) -> None:
        if error is not None:
            self._board.warn(f"what earlier attempts left behind could not be deleted: {error}")

    def _dispose_of_claimed(self) -> None:
        claimed = self._claimed
        if claimed is None or len(self._machine.completed) < self.plan.options.checkpoints.retain:
            return
        self._claimed = None

        def done(_: Any, error: BaseException | None) -> None:
            if error is not None:
                self._board.warn(f"the claimed snapshot {claimed} could not be deleted: {error}")

        self._background.submit(lambda: dispose(claimed), done)

    def _discard(self, checkpoints: Sequence[CheckpointId]) -> None:
        for checkpoint in checkpoints:
            self._discard_one(checkpoint)

    def _discard_one(self, checkpoint: CheckpointId) -> None:
        savepoint = self._savepoints.get(checkpoint)
        if savepoint is not None:
            self._discard_savepoint(savepoint, checkpoint)
        else:
            self._delete(f"chk-{checkpoint}", lambda: self._store.discard(checkpoint))

    def _discard_savepoint(self, savepoint: str, checkpoint: CheckpointId) -> None:
        if self._savepoints.get(checkpoint) == savepoint:
            del self._savepoints[checkpoint]
        self._delete(savepoint, lambda: self._store.discard_savepoint(savepoint))

    def _delete(self, snapshot: str, delete: Callable[[], None]) -> None:
        def done(_: Any, error: BaseException | None) -> None:
            if error is not None:
                self._board.warn(f"snapshot {snapshot} could not be deleted: {error}")

        self._background.submit(delete, done)


def _policy(plan: JobPlan) -> CheckpointPolicy:
    options = plan.options.checkpoints
    return CheckpointPolicy(
        interval_seconds=options.every_seconds,
        timeout_seconds=options.timeout_seconds,
        min_pause_seconds=options.min_pause_seconds,
        max_concurrent=options.max_concurrent,
        tolerable_failures=options.tolerable_failures,
        retain=options.retain,
    )

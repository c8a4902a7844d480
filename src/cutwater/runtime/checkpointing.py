"""How does a checkpoint go, from its trigger to the journal, and who is told?

The shell around the pure `CheckpointCoordinator`: it collects what tasks and sources give to a checkpoint, publishes
manifests in the background and passes on the outcome. On the coordinator's thread.
"""

from __future__ import annotations

from typing import Any, Protocol, assert_never

from cutwater.errors import AttemptFencedError, CutwaterError, OperationsError
from cutwater.graph.plan import JobPlan
from cutwater.protocol import checkpoint_events as events
from cutwater.protocol.checkpoint_coordinator import CheckpointCoordinator
from cutwater.protocol.checkpoint_events import CheckpointKind, CheckpointPolicy
from cutwater.protocol.ids import AttemptNumber, CheckpointId, TaskId
from cutwater.runtime import messages
from cutwater.runtime.job_status import StatusBoard
from cutwater.runtime.pending_manifests import PendingManifest
from cutwater.runtime.seams import Background, Clock
from cutwater.snapshots.store import SnapshotStore


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
    ) -> None:
        self._plan = plan
        self._job = job
        self._clock = clock
        self._background = background
        self._store = store
        self._board = board
        self._machine = CheckpointCoordinator(_policy(plan))
        self._pending: dict[CheckpointId, PendingManifest] = {}
        self._attempt = AttemptNumber(0)

    def start(
        self,
        attempt: AttemptNumber,
        tasks: frozenset[TaskId],
        *,
        restored: CheckpointId | None,
        next_checkpoint: CheckpointId,
    ) -> None:
        now = self._clock.now_seconds()
        self._attempt = attempt
        self._handle(events.AttemptStarted(attempt, tasks, restored, next_checkpoint, now))

    def stop(self) -> None:
        self._handle(events.AttemptStopped())
        self._pending.clear()

    def take_final(self) -> None:
        """All input was processed: one last checkpoint, with which the job ends."""
        self._handle(events.CheckpointRequested(CheckpointKind.FINAL, "final", self._clock.now_seconds()))

    def written(self, message: messages.SnapshotWritten) -> None:
        if (pending := self._pending.get(message.checkpoint)) is not None:
            pending.tasks[message.task] = message.snapshot
        now = self._clock.now_seconds()
        self._handle(events.SnapshotAcknowledged(message.attempt, message.checkpoint, message.task, now))

    def refused(self, message: messages.SnapshotRefused) -> None:
        now = self._clock.now_seconds()
        self._handle(events.SnapshotDeclined(message.attempt, message.checkpoint, message.task, message.reason, now))

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
                    self._discard(checkpoint)
                case events.RefuseRequest():
                    pass  # only the final checkpoint is requested, and it ends with its attempt
                case events.FailAttempt(reason):
                    failure = OperationsError("too many checkpoints failed", detail=reason)
                    self._job.attempt_failed(self._attempt, failure)
                case _:
                    assert_never(effect)

    def _trigger(self, effect: events.TriggerCheckpoint) -> None:
        # The assigners' state and the trigger leave in one step: a split assigned before is in its reader's
        # snapshot, because the slot hears of it first; one assigned later is in neither.
        self._pending[effect.checkpoint] = PendingManifest(
            effect.checkpoint, effect.kind, effect.attempt, self._clock.now_seconds(), self._job.source_states()
        )
        self._job.tell_all(messages.TriggerCheckpoint(effect.attempt, effect.checkpoint))

    def _publish(self, effect: events.PublishManifest) -> None:
        manifest = self._pending[effect.checkpoint].manifest(self._plan, self._clock.timestamp())

        def done(_: Any, error: BaseException | None) -> None:
            self._on_published(effect.attempt, effect.checkpoint, error)

        self._background.submit(lambda: self._store.publish(manifest), done)

    def _on_published(self, attempt: AttemptNumber, checkpoint: CheckpointId, error: BaseException | None) -> None:
        now = self._clock.now_seconds()
        if isinstance(error, AttemptFencedError):
            # An attempt of ours that has ended meanwhile is fenced by its own successor: that is as it should be.
            self._job.attempt_failed(attempt, error)
        elif error is not None:
            self._handle(events.PublishFailed(attempt, checkpoint, str(error), now))
        else:
            self._handle(events.ManifestPublished(attempt, checkpoint, now))

    def _completed(self, effect: events.NotifyCompleted) -> None:
        pending = self._pending.pop(effect.checkpoint)
        self._board.checkpoint(pending.status("completed", self._clock.now_seconds()))
        self._job.checkpoint_completed(effect.checkpoint, effect.kind)
        self._job.tell_all(messages.CheckpointCompleted(effect.attempt, effect.checkpoint))

    def _aborted(self, effect: events.NotifyAborted) -> None:
        pending = self._pending.pop(effect.checkpoint, None)
        if pending is not None:
            self._board.checkpoint(pending.status(effect.reason, self._clock.now_seconds()))
        self._job.tell_all(messages.CheckpointAborted(effect.attempt, effect.checkpoint))

    def _discard(self, checkpoint: CheckpointId) -> None:
        def done(_: Any, error: BaseException | None) -> None:
            if error is not None:
                self._board.warn(f"snapshot chk-{checkpoint} could not be deleted: {error}")

        self._background.submit(lambda: self._store.discard(checkpoint), done)


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

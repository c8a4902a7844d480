"""Which checkpoint begins now, which one is complete, and which one is given up?

    trigger → every task acknowledges → publish the manifest → notify: completed
            ↘ declined, timed out, publication failed, subsumed → notify: aborted, discard

Some decisions that are not obvious:

* A completed checkpoint subsumes older pending checkpoints, never savepoints: those belong to a user. A completed
  savepoint subsumes nothing and is not retained, because its owner may delete it at any moment.
* A checkpoint that is being published can't be called back: its files must not be deleted under the writer. If it was
  subsumed or timed out meanwhile, it is discarded when the outcome of the publication arrives, and never completes.
* When the attempt stops, a checkpoint that is being published is neither completed nor discarded: perhaps its manifest
  is already there, and recovery will restore from it. At worst a folder is left over.
* Failed savepoints answer their requester; they don't count as failures of the job.
* A new attempt that restored n forgets completed ids above n without deleting them: recovery went past them because
  they did not verify, and a person may want to look at what is left.
"""

from __future__ import annotations

from typing import assert_never

from cutwater.protocol.aligner import SUPERSEDED
from cutwater.protocol.checkpoint_events import (
    AttemptStarted,
    AttemptStopped,
    CheckpointEffect,
    CheckpointEvent,
    CheckpointKind,
    CheckpointPolicy,
    CheckpointRequested,
    ClockTicked,
    DiscardSnapshot,
    FailAttempt,
    ManifestPublished,
    NotifyAborted,
    NotifyCompleted,
    PublishFailed,
    PublishManifest,
    RefuseRequest,
    SnapshotAcknowledged,
    SnapshotDeclined,
    TriggerCheckpoint,
)
from cutwater.protocol.ids import AttemptNumber, CheckpointId, TaskId
from cutwater.protocol.pending_checkpoint import PendingCheckpoint, RunningAttempt

__all__ = [
    "AttemptStarted",
    "AttemptStopped",
    "CheckpointCoordinator",
    "CheckpointEffect",
    "CheckpointEvent",
    "CheckpointKind",
    "CheckpointPolicy",
    "CheckpointRequested",
    "ClockTicked",
    "DiscardSnapshot",
    "FailAttempt",
    "ManifestPublished",
    "NotifyAborted",
    "NotifyCompleted",
    "PublishFailed",
    "PublishManifest",
    "RefuseRequest",
    "SnapshotAcknowledged",
    "SnapshotDeclined",
    "TriggerCheckpoint",
]


class CheckpointCoordinator:
    """One per job, through all its attempts."""

    def __init__(self, policy: CheckpointPolicy) -> None:
        self._policy = policy
        self._attempt: RunningAttempt | None = None
        self._newest_attempt = AttemptNumber(-1)
        self._next_checkpoint = CheckpointId(1)
        self._pending: dict[CheckpointId, PendingCheckpoint] = {}
        # Given up while their manifests were being written: discarded when the outcome is known.
        self._abandoned: set[CheckpointId] = set()
        self._completed: list[CheckpointId] = []

    @property
    def completed(self) -> tuple[CheckpointId, ...]:
        """Retained checkpoints, oldest first; savepoints are their owners' and not among them."""
        return tuple(self._completed)

    @property
    def pending(self) -> tuple[CheckpointId, ...]:
        """Triggered, and neither completed nor given up; oldest first."""
        return tuple(self._pending)

    def wake_at(self) -> float | None:
        """When the next `ClockTicked` is useful; a moment in the past means at once, None means never."""
        attempt = self._attempt
        if attempt is None:
            return None
        moments = [pending.expires_at_seconds for pending in self._pending.values()]
        if attempt.final_retry is not None and not attempt.failing:
            moments.append(attempt.final_retry_seconds)
        if (trigger := self._periodic_trigger(attempt)) is not None:
            moments.append(trigger)
        return min(moments, default=None)

    def handle(self, event: CheckpointEvent) -> list[CheckpointEffect]:
        """What the shell must do now, in this order. What an older attempt says changes nothing."""
        match event:
            case AttemptStarted():
                return self._attempt_started(event)
            case AttemptStopped():
                return self._attempt_stopped()
            case ClockTicked(now_seconds):
                return self._clock_ticked(now_seconds)
            case CheckpointRequested():
                return self._requested(event)
            case SnapshotAcknowledged(attempt, checkpoint, task, _):
                return self._acknowledged(attempt, checkpoint, task)
            case SnapshotDeclined():
                return self._declined(event)
            case ManifestPublished(attempt, checkpoint, now_seconds):
                return self._published(attempt, checkpoint, now_seconds)
            case PublishFailed(attempt, checkpoint, reason, now_seconds):
                return self._publish_failed(attempt, checkpoint, reason, now_seconds)
            case _:
                assert_never(event)

    # -- attempts

    def _attempt_started(self, event: AttemptStarted) -> list[CheckpointEffect]:
        if event.attempt <= self._newest_attempt:
            return []
        effects = self._attempt_stopped()
        self._newest_attempt = event.attempt
        self._next_checkpoint = max(self._next_checkpoint, event.next_checkpoint)
        restored = event.restored
        known = {*self._completed, *event.kept}
        older = [] if restored is None else [restored, *(kept for kept in known if kept < restored)]
        self._completed = sorted(older)
        interval = self._policy.interval_seconds
        self._attempt = RunningAttempt(
            number=event.attempt,
            tasks=event.tasks,
            next_trigger_seconds=None if interval is None else event.now_seconds + interval,
            pause_until_seconds=event.now_seconds,
        )
        return effects

    def _attempt_stopped(self) -> list[CheckpointEffect]:
        effects: list[CheckpointEffect] = []
        for pending in self._pending.values():
            if not pending.publishing:
                effects.append(DiscardSnapshot(pending.checkpoint))
            if pending.request is not None:
                effects.append(RefuseRequest(pending.request, "the attempt stopped before the snapshot was complete"))
        if self._attempt is not None and self._attempt.final_retry is not None:
            effects.append(RefuseRequest(self._attempt.final_retry, "the attempt stopped before its final checkpoint"))
        self._pending.clear()
        self._abandoned.clear()
        self._attempt = None
        return effects

    def _running(self, number: AttemptNumber) -> RunningAttempt | None:
        attempt = self._attempt
        return attempt if attempt is not None and attempt.number == number else None

    # -- beginning

    def _clock_ticked(self, now_seconds: float) -> list[CheckpointEffect]:
        attempt = self._attempt
        if attempt is None:
            return []
        effects: list[CheckpointEffect] = []
        # Before anything expires: a final checkpoint that fails in this tick is tried again in the next.
        if attempt.final_retry is not None and not attempt.failing:
            request, attempt.final_retry = attempt.final_retry, None
            effects += self._trigger(attempt, CheckpointKind.FINAL, request, now_seconds)
        for pending in [late for late in self._pending.values() if late.expires_at_seconds <= now_seconds]:
            effects += self._expire(attempt, pending, now_seconds)
        due = self._periodic_trigger(attempt)
        if due is not None and due <= now_seconds:
            self._schedule_after(attempt, now_seconds)
            effects += self._trigger(attempt, CheckpointKind.CHECKPOINT, None, now_seconds)
        return effects

    def _schedule_after(self, attempt: RunningAttempt, now_seconds: float) -> None:
        interval, scheduled = self._policy.interval_seconds, attempt.next_trigger_seconds
        assert interval is not None
        assert scheduled is not None
        # Beats that were missed are not made up for.
        following = scheduled + interval
        attempt.next_trigger_seconds = following if following > now_seconds else now_seconds + interval

    def _periodic_trigger(self, attempt: RunningAttempt) -> float | None:
        """When the next periodic checkpoint may begin; None as long as only another event can allow it."""
        if attempt.next_trigger_seconds is None or attempt.final_requested or attempt.failing:
            return None
        underway = sum(pending.kind is CheckpointKind.CHECKPOINT for pending in self._pending.values())
        if underway >= self._policy.max_concurrent:
            return None
        return max(attempt.next_trigger_seconds, attempt.pause_until_seconds)

    def _requested(self, event: CheckpointRequested) -> list[CheckpointEffect]:
        attempt = self._attempt
        if attempt is None:
            return [RefuseRequest(event.request, "no attempt of the job is running")]
        if attempt.failing:
            return [RefuseRequest(event.request, "the attempt is failing")]
        if attempt.final_requested:
            return [RefuseRequest(event.request, "the job is finishing: its final checkpoint has begun")]
        attempt.final_requested = event.kind is CheckpointKind.FINAL
        return self._trigger(attempt, event.kind, event.request, event.now_seconds)

    def _trigger(
        self, attempt: RunningAttempt, kind: CheckpointKind, request: str | None, now_seconds: float
    ) -> list[CheckpointEffect]:
        checkpoint = self._next_checkpoint
        self._next_checkpoint = CheckpointId(checkpoint + 1)
        expires_at = now_seconds + self._policy.timeout_seconds
        self._pending[checkpoint] = PendingCheckpoint(checkpoint, kind, request, expires_at, set(attempt.tasks))
        effects: list[CheckpointEffect] = [TriggerCheckpoint(attempt.number, checkpoint, kind, request)]
        if not attempt.tasks:
            effects.append(PublishManifest(attempt.number, checkpoint, kind))
        return effects

    # -- ending well

    def _acknowledged(self, number: AttemptNumber, checkpoint: CheckpointId, task: TaskId) -> list[CheckpointEffect]:
        pending = self._pending.get(checkpoint)
        if self._running(number) is None or pending is None or task not in pending.waiting:
            return []
        pending.waiting.discard(task)
        return [PublishManifest(number, checkpoint, pending.kind)] if pending.publishing else []

    def _published(self, number: AttemptNumber, checkpoint: CheckpointId, now_seconds: float) -> list[CheckpointEffect]:
        attempt = self._running(number)
        if attempt is None:
            return []
        if checkpoint in self._abandoned:
            self._abandoned.discard(checkpoint)
            return [DiscardSnapshot(checkpoint)]
        pending = self._pending.get(checkpoint)
        if pending is None or not pending.publishing:
            return []
        del self._pending[checkpoint]
        effects: list[CheckpointEffect] = [NotifyCompleted(number, checkpoint, pending.kind, pending.request)]
        if pending.kind is CheckpointKind.SAVEPOINT:
            return effects
        attempt.failures = 0
        attempt.pause_until_seconds = now_seconds + self._policy.min_pause_seconds
        self._completed.append(checkpoint)
        effects += self._subsume_older_than(checkpoint, number)
        while len(self._completed) > self._policy.retain:
            effects.append(DiscardSnapshot(self._completed.pop(0)))
        return effects

    def _subsume_older_than(self, completed: CheckpointId, number: AttemptNumber) -> list[CheckpointEffect]:
        effects: list[CheckpointEffect] = []
        for older in [pending for pending in self._pending.values() if pending.checkpoint < completed]:
            if older.kind is CheckpointKind.SAVEPOINT:
                continue
            del self._pending[older.checkpoint]
            if older.publishing:
                self._abandoned.add(older.checkpoint)
                continue
            reason = f"subsumed by checkpoint {completed}"
            effects.append(NotifyAborted(number, older.checkpoint, reason, older.request))
            effects.append(DiscardSnapshot(older.checkpoint))
        return effects

    # -- ending badly

    def _declined(self, event: SnapshotDeclined) -> list[CheckpointEffect]:
        attempt = self._running(event.attempt)
        pending = self._pending.get(event.checkpoint)
        if attempt is None or pending is None or event.task not in pending.waiting:
            return []
        if event.reason.startswith(SUPERSEDED):
            return self._abort(attempt, pending, event.reason, event.now_seconds)
        return self._fail(attempt, pending, f"{event.task} declined: {event.reason}", event.now_seconds)

    def _publish_failed(
        self, number: AttemptNumber, checkpoint: CheckpointId, reason: str, now_seconds: float
    ) -> list[CheckpointEffect]:
        attempt = self._running(number)
        if attempt is None:
            return []
        if checkpoint in self._abandoned:
            self._abandoned.discard(checkpoint)
            return [DiscardSnapshot(checkpoint)]
        pending = self._pending.get(checkpoint)
        if pending is None or not pending.publishing:
            return []
        return self._fail(attempt, pending, f"the manifest could not be published: {reason}", now_seconds)

    def _expire(
        self, attempt: RunningAttempt, pending: PendingCheckpoint, now_seconds: float
    ) -> list[CheckpointEffect]:
        missing = ", ".join(str(task) for task in sorted(pending.waiting)) or "the manifest"
        reason = f"timed out after {self._policy.timeout_seconds:g} s, still waiting for {missing}"
        if pending.publishing:
            self._abandoned.add(pending.checkpoint)
        return self._fail(attempt, pending, reason, now_seconds)

    def _fail(
        self, attempt: RunningAttempt, pending: PendingCheckpoint, reason: str, now_seconds: float
    ) -> list[CheckpointEffect]:
        effects = self._abort(attempt, pending, reason, now_seconds)
        if pending.kind is CheckpointKind.SAVEPOINT:
            return effects
        attempt.failures += 1
        if attempt.failures > self._policy.tolerable_failures and not attempt.failing:
            attempt.failing = True
            tolerated = self._policy.tolerable_failures
            effects.append(FailAttempt(f"checkpoint {pending.checkpoint} failed ({tolerated} tolerated): {reason}"))
        return effects

    def _abort(
        self, attempt: RunningAttempt, pending: PendingCheckpoint, reason: str, now_seconds: float
    ) -> list[CheckpointEffect]:
        del self._pending[pending.checkpoint]
        request = pending.request
        if pending.kind is CheckpointKind.FINAL:
            # The job can't end without it: the request stays open and is tried again, or refused with the attempt.
            attempt.final_retry, request = request, None
            attempt.final_retry_seconds = now_seconds
        effects: list[CheckpointEffect] = [NotifyAborted(attempt.number, pending.checkpoint, reason, request)]
        if pending.checkpoint not in self._abandoned:
            effects.append(DiscardSnapshot(pending.checkpoint))
        return effects

"""Which prepared output may be made visible now, and which must a snapshot remember?

What was prepared for a checkpoint may be committed when that checkpoint, or a later one, completed: not earlier, since
a failure would roll the state back behind it; never less, since the state has moved past it. So:

* an aborted checkpoint drops nothing: its output is covered by the next checkpoint that completes;
* whatever isn't known to be committed goes into the next snapshot and is committed again on recovery; commits are
  idempotent.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from cutwater.protocol.ids import CheckpointId

Committable = TypeVar("Committable")


@dataclass(frozen=True, slots=True)
class Commit(Generic[Committable]):
    """What one checkpoint prepared."""

    checkpoint: CheckpointId
    committables: tuple[Committable, ...]


class CommitLedger(Generic[Committable]):
    """The committables of one sink task between `prepare` and a commit that succeeded."""

    def __init__(self, pending: Iterable[Commit[Committable]] = ()) -> None:
        self._prepared: dict[CheckpointId, tuple[Committable, ...]] = {}
        self._handed_out: set[CheckpointId] = set()
        for commit in pending:
            self.prepared(commit.checkpoint, commit.committables)

    def prepared(self, checkpoint: CheckpointId, committables: Iterable[Committable]) -> None:
        """The sink prepared this output for the checkpoint; called while its snapshot is taken, before `pending`."""
        added = tuple(committables)
        if added:
            # Several old sink tasks may bring output of one checkpoint to one new task when the job is rescaled.
            self._prepared[checkpoint] = self._prepared.get(checkpoint, ()) + added

    def completed(self, checkpoint: CheckpointId) -> list[Commit[Committable]]:
        """Everything to commit now, oldest first; what is already being committed is not handed out twice."""
        ready = [
            Commit(prepared, committables)
            for prepared, committables in sorted(self._prepared.items(), key=lambda item: item[0])
            if prepared <= checkpoint and prepared not in self._handed_out
        ]
        self._handed_out.update(commit.checkpoint for commit in ready)
        return ready

    def committed(self, checkpoint: CheckpointId) -> None:
        """The commit that was handed out for this checkpoint succeeded."""
        if checkpoint in self._handed_out:
            self._handed_out.discard(checkpoint)
            del self._prepared[checkpoint]

    def failed(self, checkpoint: CheckpointId) -> None:
        """The commit failed; it is handed out again when the next checkpoint completes."""
        self._handed_out.discard(checkpoint)

    def aborted(self, checkpoint: CheckpointId) -> None:
        """Changes nothing, on purpose: the state keeps what the records did, so their output must come, only later."""

    def pending(self) -> tuple[Commit[Committable], ...]:
        """What the next snapshot must hold: everything prepared and not known to be committed, oldest first."""
        return tuple(
            Commit(checkpoint, committables)
            for checkpoint, committables in sorted(self._prepared.items(), key=lambda item: item[0])
        )

"""From which snapshot does a new attempt start, and may it publish?

The journal of a job is one order of entries that all drivers agree on. An attempt first claims its number there; from
then on older attempts may append nothing. Then it looks for the newest snapshot that verifies. A job that has
snapshots of which none verifies is refused: to start it empty would silently lose its state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from cutwater.protocol.ids import AttemptNumber, CheckpointId

Skipped = tuple[tuple[CheckpointId, str], ...]


@dataclass(frozen=True, slots=True)
class AttemptClaimed:
    """A journal entry: from here on only this attempt, or a newer one, may append."""

    attempt: AttemptNumber
    run: str = "0"
    """Whose attempt it is. A run begins when a job is started, and goes on when a driver takes over what is there."""
    driver: str = ""
    """Who claims: no two drivers have one name."""


@dataclass(frozen=True, slots=True)
class SnapshotCompleted:
    """A journal entry: the manifest at this path is published."""

    checkpoint: CheckpointId
    attempt: AttemptNumber
    path: str


JournalEntry = AttemptClaimed | SnapshotCompleted


@dataclass(frozen=True, slots=True)
class SnapshotVerified:
    """Manifest and files are all there, and their checksums agree."""

    checkpoint: CheckpointId


@dataclass(frozen=True, slots=True)
class SnapshotDamaged:
    """Something is missing or differs."""

    checkpoint: CheckpointId
    problem: str


@dataclass(frozen=True, slots=True)
class VerifySnapshot:
    """Look whether the snapshot can be restored, and answer with an event."""

    checkpoint: CheckpointId
    path: str


@dataclass(frozen=True, slots=True)
class RestoreFrom:
    """Start the attempt from this snapshot; `skipped` are newer ones and what is wrong with them."""

    checkpoint: CheckpointId
    path: str
    skipped: Skipped


@dataclass(frozen=True, slots=True)
class StartEmpty:
    """The job has never completed a snapshot."""


@dataclass(frozen=True, slots=True)
class RefuseRecovery:
    """Don't start; a person must decide."""

    reason: str
    skipped: Skipped


Event = SnapshotVerified | SnapshotDamaged
Effect = VerifySnapshot | RestoreFrom | StartEmpty | RefuseRecovery


def may_append(entries: Sequence[JournalEntry], attempt: AttemptNumber) -> bool:
    """Whether this attempt still holds the newest claim: the permit to publish and to commit."""
    newest = max((entry.attempt for entry in entries if isinstance(entry, AttemptClaimed)), default=None)
    return newest == attempt


def run_of(entries: Sequence[JournalEntry]) -> str | None:
    """The run that holds the newest claim; None: there is none."""
    newest = newest_claim(entries)
    return None if newest is None else newest.run


def newest_claim(entries: Sequence[JournalEntry]) -> AttemptClaimed | None:
    claims = (entry for entry in entries if isinstance(entry, AttemptClaimed))
    return max(claims, key=lambda claim: claim.attempt, default=None)


def is_taken_over(entries: Sequence[JournalEntry], *, attempt: AttemptNumber, driver: str) -> bool:
    """Whether another driver has claimed the job after this attempt: then this driver is over, and claims nothing more.

    Of two drivers the one that was started last counts, also when it goes on with the same run: one that hung, and was
    replaced, must not stop its successor when it wakes up.
    """
    claims = (entry for entry in entries if isinstance(entry, AttemptClaimed))
    return any(claim.attempt > attempt and claim.driver != driver for claim in claims)


class Recovery:
    """The decisions of one attempt, after it appended its claim."""

    def __init__(self, entries: Sequence[JournalEntry], claimed: AttemptNumber) -> None:
        self._fenced = not may_append(entries, claimed)
        self._claimed = claimed
        self._candidates = newest_first(entries)
        self._skipped: list[tuple[CheckpointId, str]] = []

    def start(self) -> list[Effect]:
        """Called once, first."""
        if self._fenced:
            return [RefuseRecovery(f"attempt {self._claimed} does not hold the newest claim of the job", ())]
        return self._verify_next() if self._candidates else [StartEmpty()]

    def handle(self, event: Event) -> list[Effect]:
        """An answer to `VerifySnapshot`; an answer that wasn't asked for changes nothing."""
        if not self._candidates or self._candidates[0].checkpoint != event.checkpoint:
            return []
        candidate = self._candidates[0]
        match event:
            case SnapshotVerified():
                self._candidates = []
                return [RestoreFrom(candidate.checkpoint, candidate.path, tuple(self._skipped))]
            case SnapshotDamaged(checkpoint, problem):
                self._skipped.append((checkpoint, problem))
                self._candidates = self._candidates[1:]
                return self._verify_next()
            case _:
                assert_never(event)

    def _verify_next(self) -> list[Effect]:
        if not self._candidates:
            return [RefuseRecovery("the job has snapshots, but none of them verifies", tuple(self._skipped))]
        return [VerifySnapshot(self._candidates[0].checkpoint, self._candidates[0].path)]


def newest_first(entries: Sequence[JournalEntry]) -> list[SnapshotCompleted]:
    """By id, not by place in the journal: an older checkpoint may have been published after a newer one."""
    claimed: AttemptNumber | None = None
    completed: dict[CheckpointId, SnapshotCompleted] = {}
    for entry in entries:
        match entry:
            case AttemptClaimed(attempt):
                claimed = attempt if claimed is None else max(claimed, attempt)
            case SnapshotCompleted(checkpoint, attempt, _):
                # A fenced attempt can't append; should it have managed to, its snapshot is not part of our history.
                if claimed is None or attempt >= claimed:
                    completed[checkpoint] = entry
            case _:
                assert_never(entry)
    return sorted(completed.values(), key=lambda entry: entry.checkpoint, reverse=True)

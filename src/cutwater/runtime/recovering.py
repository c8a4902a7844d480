"""How does an attempt begin: which number, from which snapshot, with which outputs committed?

Blocking, on a background thread of the coordinator. The decisions are those of `protocol.recovery`; this executes
them: claim the attempt, verify snapshots, then let every sink commit what the snapshot holds and roll back the rest.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import assert_never

from cutwater.connectors.contract import Sink
from cutwater.errors import ConfigurationError, RecoveryRefusedError, SnapshotDamagedError, SnapshotUntrustedError
from cutwater.graph.model import LogicalNode, NodeKind
from cutwater.graph.plan import JobPlan
from cutwater.operators.sink import COMMITTABLES_STATE, decode_committable
from cutwater.operators.source import READERS_STATE, decode_position
from cutwater.protocol.ids import AttemptNumber, CheckpointId
from cutwater.protocol.modes import CheckpointMode
from cutwater.protocol.recovery import (
    AttemptClaimed,
    Event,
    JournalEntry,
    Recovery,
    RefuseRecovery,
    RestoreFrom,
    SnapshotCompleted,
    SnapshotDamaged,
    SnapshotVerified,
    StartEmpty,
    VerifySnapshot,
    newest_first,
    run_of,
)
from cutwater.runtime.fitting import check_fits, key_groups_of
from cutwater.snapshots.format import Manifest
from cutwater.snapshots.reader import attached_files, list_items_of, load_manifest, verify
from cutwater.snapshots.redistribution import parallelism_of
from cutwater.snapshots.storage import Storage, absolute_url, split_url
from cutwater.snapshots.store import SnapshotStore


@dataclass(frozen=True, slots=True)
class Restored:
    """A snapshot that verified."""

    manifest: Manifest
    storage: Storage
    #: Folder of the snapshot, relative to the storage's root.
    folder: str
    #: The storage's root, when it is not the job's own.
    storage_url: str | None = None


@dataclass(frozen=True, slots=True)
class Recovered:
    """What the next attempt starts from."""

    attempt: AttemptNumber
    next_checkpoint: CheckpointId
    restored: Restored | None
    skipped: tuple[tuple[int, str], ...] = ()
    #: Earlier checkpoints of the job's own past that are still there.
    kept: tuple[CheckpointId, ...] = ()
    #: The restored snapshot, if the job is to delete it once it has newer ones.
    claimed: str | None = None
    #: Whose attempt it is.
    run: str = "0"
    #: By source whose splits have an order: those that were being read.
    reading: Mapping[str, frozenset[str]] = field(default_factory=dict)

    @property
    def own_checkpoint(self) -> CheckpointId | None:
        """The restored one, if it is the job's to delete: a snapshot given by its path belongs to whoever gave it."""
        if self.restored is None or self.restored.storage_url is not None:
            return None
        return CheckpointId(self.restored.manifest.checkpoint)


@dataclass(frozen=True, slots=True)
class History:
    """Which snapshots count as the job's own past: those of this run, and those it was told to go on from."""

    #: Snapshots from before this run. What comes later is ours, even when another driver wrote it: one that was
    #: started in our place while we hung, and whose output we must not repeat.
    left_aside: frozenset[SnapshotCompleted] = frozenset()
    restore_path: str | None = None
    #: Drop the state of operators that the job does not have.
    allow_non_restored_state: bool = False
    #: The snapshot at the path is the job's to delete.
    claim: bool = False
    #: Snapshots that a slot could not read, and what is wrong with them.
    damaged: tuple[tuple[int, str], ...] = ()
    #: Whose attempts are ours; None: those of the run that the journal knows.
    run: str | None = None

    def relevant(self, entries: Sequence[JournalEntry]) -> Sequence[JournalEntry]:
        return [entry for entry in entries if entry not in self.left_aside]


def history_of(
    restore: str | None,
    store: SnapshotStore,
    *,
    allow_non_restored_state: bool = False,
    claim: bool = False,
    new_run: Callable[[], str] = lambda: secrets.token_hex(5),
) -> History:
    """What a driver goes on from: "latest", the path of a snapshot, or nothing. May block.

    With "latest" it goes on with the run that is there; else a new one begins.
    """
    entries = store.journal()
    if restore == "latest":
        return History(allow_non_restored_state=allow_non_restored_state, run=run_of(entries) or new_run())
    before = frozenset(entry for entry in entries if isinstance(entry, SnapshotCompleted))
    path = None if restore is None else absolute_url(restore)
    return History(before, path, allow_non_restored_state, claim, run=new_run())


def check_connectors(plan: JobPlan, history: History, store: SnapshotStore) -> None:
    """Raises when a source can't be read, a sink can't be written, or must not be by a job that starts from nothing.
    May block.

    "latest" of a job that has no snapshot is such a start: what it finds as output is not its own.
    """
    before = history.relevant(store.journal())
    restores = history.restore_path is not None or any(isinstance(entry, SnapshotCompleted) for entry in before)
    for node in plan.logical.nodes.values():
        if node.kind is NodeKind.SINK:
            _check_commits(node.connector, plan.options.checkpoints.checkpoint_mode)
            node.connector.check(restores=restores)
        elif node.kind is NodeKind.SOURCE:
            node.connector.check()


def _check_commits(sink: Sink, mode: CheckpointMode) -> None:
    if sink.commits_in_driver and mode is CheckpointMode.NONE:
        raise ConfigurationError(
            f'sink "{sink.name}" needs checkpoints',
            detail="it writes when a checkpoint has completed",
            hint="set checkpoints=cw.Checkpoints(every=…)",
        )


def with_key_groups_restored(plan: JobPlan, history: History, store: SnapshotStore) -> JobPlan:
    """The plan with as many key groups as the state has that it will start from, unless the user said how many.

    What can't be read here is left for the recovery to complain about. May block.
    """
    if plan.options.max_parallelism is not None:
        return plan
    for path, storage in _candidates(history, store):
        with suppress(SnapshotDamagedError):
            groups = key_groups_of(load_manifest(storage, path, secret=store.secret))
            return plan if groups is None else plan.with_key_groups(groups)
    return plan


def _candidates(history: History, store: SnapshotStore) -> Iterator[tuple[str, Storage]]:
    """The folders of snapshots that a run may start from, newest first."""
    if history.restore_path is not None:
        root, folder = split_url(history.restore_path)
        yield folder, store.open_other(root)
    for entry in newest_first(history.relevant(store.journal())):
        yield entry.path, store.storage


def recover(plan: JobPlan, store: SnapshotStore, history: History) -> Recovered:
    """Claims the next attempt and prepares its start."""
    run = history.run or run_of(store.journal()) or "0"
    attempt, entries = store.claim_attempt(run)
    recovery = Recovery([*history.relevant(entries), AttemptClaimed(attempt, run)], attempt)
    restored, skipped = _choose(recovery, store, dict(history.damaged))
    path = history.restore_path if restored is None else None
    if path is not None:
        restored = _from_path(path, store)
    if restored is not None:
        check_fits(plan.graph, restored.manifest, drop_unknown=history.allow_non_restored_state)
    with nullcontext() if path is None else _nothing_older(path):  # sinks read what a savepoint has for them
        _recover_sinks(plan, restored, attempt, run)
    claimed = path if history.claim else None
    kept = store.still_there(history.relevant(entries))
    reading = {} if restored is None else _being_read(plan, restored)
    # Above those of a snapshot from elsewhere, too: sinks may remember the numbers of what they have committed.
    following = max(store.next_checkpoint(entries), CheckpointId(restored.manifest.checkpoint + 1 if restored else 1))
    return Recovered(attempt, following, restored, skipped, kept, claimed, run, reading)


def _choose(
    recovery: Recovery, store: SnapshotStore, damaged: Mapping[int, str]
) -> tuple[Restored | None, tuple[tuple[int, str], ...]]:
    effects = recovery.start()
    while True:
        effect = effects[0]
        match effect:
            case VerifySnapshot(checkpoint, _):
                problem = damaged.get(checkpoint) or store.verify(checkpoint)
                if problem is not None:
                    # A driver that hung must not fall back to an older snapshot, and commit its output once more,
                    # because its successor has deleted the newer one.
                    store.check_not_superseded()
                event: Event = SnapshotVerified(checkpoint) if problem is None else SnapshotDamaged(checkpoint, problem)
                effects = recovery.handle(event)
            case RestoreFrom(checkpoint, path, skipped):
                return Restored(store.read_manifest(checkpoint), store.storage, path), skipped
            case StartEmpty():
                return None, ()
            case RefuseRecovery(reason, skipped):
                raise RecoveryRefusedError(
                    reason,
                    detail="; ".join(f"chk-{checkpoint}: {problem}" for checkpoint, problem in skipped),
                    hint="restore a savepoint or an older retained checkpoint by its path, or start anew",
                )
            case _:
                assert_never(effect)


def _from_path(path: str, store: SnapshotStore) -> Restored:
    root, folder = split_url(path)
    storage = store.open_other(root)
    with _nothing_older(path):
        manifest = load_manifest(storage, folder, secret=store.secret)
    problem = verify(storage, folder, manifest)
    if problem is not None:
        raise damaged_at(path, problem)
    return Restored(manifest, storage, folder, root)


@contextmanager
def _nothing_older(path: str) -> Iterator[None]:
    """Damage is final: the snapshot is the one that the user named."""
    try:
        yield
    except SnapshotUntrustedError:
        raise
    except SnapshotDamagedError as error:
        raise damaged_at(path, f"{error.fact}: {error.detail}") from error


def damaged_at(path: str, problem: str) -> RecoveryRefusedError:
    """A snapshot that the user named has no older one that could take its place."""
    return RecoveryRefusedError(f'the snapshot "{path}" is damaged', detail=problem, hint="restore another one")


def _recover_sinks(plan: JobPlan, restored: Restored | None, attempt: AttemptNumber, run: str) -> None:
    before = parallelism_of(restored.manifest.vertices) if restored is not None else {}
    for vertex in plan.graph.vertices:
        for node in vertex.operators:
            if node.kind is NodeKind.SINK:
                node.connector.recover(
                    job_id=plan.job_id,
                    uid=node.uid,
                    committables=_uncommitted(restored, node) if restored is not None else [],
                    attempt=attempt,
                    run=run,
                    attached=attached_of(restored, node.uid) if restored is not None else {},
                    parallelism_before=before.get(node.uid),
                )


def _being_read(plan: JobPlan, restored: Restored) -> dict[str, frozenset[str]]:
    ordered = [
        node.uid
        for node in plan.logical.nodes.values()
        if node.kind is NodeKind.SOURCE and node.connector.has_successors
    ]
    return {
        uid: frozenset(decode_position(item).id for item in _items_of(restored, uid, READERS_STATE)) for uid in ordered
    }


def _uncommitted(restored: Restored, node: LogicalNode) -> list[bytes]:
    if node.connector.commits_in_driver:
        return committables_of(restored, node.uid, after=restored.manifest.committed_in_driver)
    return committables_of(restored, node.uid)


def committables_of(restored: Restored, operator: str, *, after: int = 0) -> list[bytes]:
    """Everything that the snapshot says is prepared, in the order it was; only for checkpoints after this one."""
    prepared = map(decode_committable, _items_of(restored, operator, COMMITTABLES_STATE))
    return [committable for checkpoint, committable in prepared if checkpoint > after]


def _items_of(restored: Restored, operator: str, state: str) -> Iterable[bytes]:
    return list_items_of(restored.storage, restored.folder, restored.manifest.tasks, operator, state)


def attached_of(restored: Restored, operator: str) -> dict[str, Callable[[], Iterator[bytes]]]:
    """What the snapshot, if it is a savepoint, holds for a sink besides."""
    return attached_files(restored.storage, restored.folder, restored.manifest.tasks, operator)


def assigner_states(restored: Restored | None) -> dict[str, bytes]:
    return dict(restored.manifest.sources) if restored is not None else {}

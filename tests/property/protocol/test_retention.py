"""Is a file ever deleted that something restorable names, or kept for ever though nothing names it?

Drivers of one job take checkpoints, die at any moment and are replaced, while those that only seemed dead go on. Each
step of each deletion is one step here, so that everything may happen in between.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from cutwater.protocol import retention
from cutwater.protocol.ids import AttemptNumber, CheckpointId
from cutwater.protocol.recovery import AttemptClaimed, JournalEntry, SnapshotCompleted, may_append
from cutwater.protocol.retention import (
    Delete,
    Deletion,
    DiscardCheckpoint,
    DiscardEverything,
    Effect,
    FileKind,
    FilesListed,
    JournalRead,
    ListFiles,
    ManifestsRead,
    ReadJournal,
    ReadManifests,
    Request,
    SnapshotKey,
    StoredFile,
    SweepLeftovers,
)

Manifest = frozenset[str]
"""The shared files that it names."""


def state_path(key: SnapshotKey) -> str:
    return f"state-{key.checkpoint}-{key.attempt}"


def shared_path(key: SnapshotKey, number: int) -> str:
    return f"shared-{number}-{key.checkpoint}-{key.attempt}"


@dataclass
class Storage:
    manifests: dict[SnapshotKey, Manifest] = field(default_factory=dict)
    files: dict[str, StoredFile] = field(default_factory=dict)
    journal: list[JournalEntry] = field(default_factory=list)

    def list(self) -> list[StoredFile]:
        there = [StoredFile(f"manifest-{key}", FileKind.MANIFEST, key) for key in self.manifests]
        return [*there, *self.files.values()]

    def restorable(self) -> set[SnapshotKey]:
        return retention.restorable(self.journal, self.list())

    def add(self, path: str, kind: FileKind, owner: SnapshotKey) -> None:
        self.files[path] = StoredFile(path, kind, owner)


class Driver:
    """One attempt: takes one checkpoint at a time, and carries out one deletion at a time, in small steps."""

    def __init__(self, storage: Storage, retain: int) -> None:
        self.storage = storage
        self.retain = retain
        entries = [entry for entry in storage.journal if isinstance(entry, AttemptClaimed)]
        self.attempt = AttemptNumber(max((entry.attempt for entry in entries), default=0) + 1)
        storage.journal.append(AttemptClaimed(self.attempt))
        restored = max(storage.restorable(), default=None)
        #: What the next checkpoint may name again: the shared files of the newest one that is complete.
        self.stored: Manifest = frozenset() if restored is None else storage.manifests[restored]
        self.completed = sorted(storage.restorable())
        begun = [file.owner.checkpoint for file in storage.list()]
        self.next = max([0, *begun, *(key.checkpoint for key in retention.completed(storage.journal))]) + 1
        self.pending: tuple[SnapshotKey, Manifest] | None = None
        self.waiting: list[Request] = [SweepLeftovers()]
        self.deletion: Deletion | None = None
        self.effects: list[Effect] = []
        self.deleting: list[SnapshotKey | str] = []

    def write(self, reused: int, new: int) -> None:
        key = SnapshotKey(self.next, self.attempt)
        self.next += 1
        self.storage.add(state_path(key), FileKind.STATE, key)
        named = set(sorted(self.stored)[:reused])
        for number in range(new):
            self.storage.add(shared_path(key, number), FileKind.SHARED, key)
            named.add(shared_path(key, number))
        self.pending = key, frozenset(named)

    def publish(self, *, heard: bool) -> None:
        assert self.pending is not None
        (key, named), self.pending = self.pending, None
        if not may_append(self.storage.journal, self.attempt):
            self.waiting.append(DiscardCheckpoint(key.checkpoint))
            return
        self.storage.manifests[key] = named
        self.storage.journal.append(SnapshotCompleted(CheckpointId(key.checkpoint), self.attempt, ""))
        if not heard:
            self.waiting.append(DiscardCheckpoint(key.checkpoint))
            return
        self.stored = named
        self.completed.append(key)
        while len(self.completed) > self.retain:
            self.waiting.append(DiscardCheckpoint(self.completed.pop(0).checkpoint))

    def abort(self) -> None:
        assert self.pending is not None
        self.waiting.append(DiscardCheckpoint(self.pending[0].checkpoint))
        self.pending = None

    @property
    def is_deleting(self) -> bool:
        return bool(self.deletion or self.waiting)

    def finish_deleting(self) -> None:
        while self.is_deleting:
            self.step()

    def step(self) -> None:
        if self.deleting:
            what = self.deleting.pop(0)
            if isinstance(what, SnapshotKey):
                self.storage.manifests.pop(what, None)
            else:
                self.storage.files.pop(what, None)
        elif self.effects:
            self._execute(self.effects.pop(0))
        elif self.deletion is not None:
            self.deletion = None
        elif self.waiting and (self.pending is None or isinstance(self.waiting[0], SweepLeftovers)):
            # To discard, `Checkpointing` waits for the checkpoints that are under way.
            self.deletion = Deletion(self.waiting.pop(0), self.attempt)
            self.effects = self.deletion.start()

    def _execute(self, effect: Effect) -> None:
        assert self.deletion is not None
        match effect:
            case ListFiles():
                self.effects = self.deletion.handle(FilesListed(self.storage.list()))
            case ReadJournal():
                self.effects = self.deletion.handle(JournalRead(self.storage.journal.copy()))
            case ReadManifests(snapshots):
                named = {key: self.storage.manifests.get(key, frozenset()) for key in snapshots}
                self.effects = self.deletion.handle(ManifestsRead(named))
            case Delete(manifests, files):
                self.deleting = [*manifests, *files]


class Retention(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.storage = Storage()
        self.drivers = [Driver(self.storage, retain=2)]

    def driver(self, number: int) -> Driver:
        return self.drivers[number % len(self.drivers)]

    @rule(number=st.integers(0, 3), reused=st.integers(0, 4), new=st.integers(0, 2))
    def a_checkpoint_is_written(self, number: int, reused: int, new: int) -> None:
        driver = self.driver(number)
        if driver.pending is None:
            driver.write(reused, new)

    @rule(number=st.integers(0, 3), heard=st.sampled_from([True, True, True, False]))
    def it_is_published(self, number: int, heard: bool) -> None:
        driver = self.driver(number)
        if driver.pending is not None:
            driver.publish(heard=heard)

    @rule(number=st.integers(0, 3))
    def it_is_aborted(self, number: int) -> None:
        driver = self.driver(number)
        if driver.pending is not None:
            driver.abort()

    @rule(number=st.integers(0, 3), steps=st.sampled_from([1, 2, 3, 5, 10, 30]))
    def a_driver_deletes(self, number: int, steps: int) -> None:
        for _ in range(steps):
            self.driver(number).step()
            self.check()

    @precondition(lambda self: len(self.drivers) < 4)
    @rule(retain=st.integers(1, 3))
    def a_new_driver_takes_over_and_the_old_one_hangs(self, retain: int) -> None:
        self.drivers.append(Driver(self.storage, retain))

    @rule()
    def a_driver_is_killed(self) -> None:
        self.drivers.pop(0)
        if not self.drivers:
            self.drivers.append(Driver(self.storage, retain=2))

    @invariant()
    def check(self) -> None:
        """Never a file that something restorable names."""
        for key in self.storage.restorable():
            missing = (self.storage.manifests[key] | {state_path(key)}) - self.storage.files.keys()
            assert not missing, f"{key} misses {missing}"
        newest = max(retention.completed(self.storage.journal), default=None)
        assert newest is None or newest in self.storage.manifests, "the newest completed one is never deleted"

    def teardown(self) -> None:
        """Never one kept for ever that nothing names: after the next attempt has swept, there is none."""
        for driver in self.drivers:
            driver.pending = None
            while driver.is_deleting:
                driver.step()
                self.check()
        last = Driver(self.storage, retain=2)
        while last.is_deleting:
            last.step()
            self.check()
        restorable = self.storage.restorable()
        named = {path for key in restorable for path in (*self.storage.manifests[key], state_path(key))}
        assert self.storage.files.keys() == named
        assert self.storage.manifests.keys() == restorable


Retention.TestCase.settings = settings(max_examples=200, stateful_step_count=40)
TestRetention = Retention.TestCase


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2), st.booleans()), max_size=12), st.integers(1, 3))
def test_a_driver_that_does_not_fail_leaves_nothing_for_the_next_one_to_sweep(
    checkpoints: list[tuple[int, int, bool]], retain: int
):
    storage = Storage()
    driver = Driver(storage, retain)
    for reused, new, succeeds in checkpoints:
        driver.write(reused, new)
        driver.publish(heard=True) if succeeds else driver.abort()
        driver.finish_deleting()
    restorable = storage.restorable()
    assert len(restorable) == min(retain, sum(succeeds for _, _, succeeds in checkpoints))
    named = {path for key in restorable for path in (*storage.manifests[key], state_path(key))}
    assert storage.files.keys() == named


def test_a_job_that_is_over_leaves_nothing():
    storage = Storage()
    driver = Driver(storage, retain=3)
    for _ in range(3):
        driver.write(2, 2)
        driver.publish(heard=True)
    driver.waiting.append(DiscardEverything())
    driver.finish_deleting()
    assert (storage.files, storage.manifests) == ({}, {})

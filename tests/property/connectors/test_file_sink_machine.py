"""Whatever runs share folders, fail, crash, are restored from where and into where: each record is visible once.

Every record is a number that an attempt writes once. A published file says in its name which attempt of which run wrote
it. So in each folder:

* nothing is visible twice that one attempt wrote;
* nothing is visible that no completed snapshot holds;
* what was committed stays, also when the machine crashes: no run takes anything from another.

And whatever snapshot says it has prepared can be published, in every folder: a savepoint always, a checkpoint as long
as nobody deletes the folder that it was taken in.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, precondition, rule
from tests.property.connectors.memory_files import MemoryFiles

from cutwater.batches import ObjectBatch
from cutwater.connectors import file_system, sinks
from cutwater.connectors.contract import SinkWriter, WriterContext
from cutwater.connectors.file_sink import FileSink
from cutwater.connectors.prepared_files import PreparedFile, RolledFile, decode_prepared
from cutwater.errors import StorageError
from cutwater.protocol.ids import AttemptNumber, CheckpointId

FOLDERS = ("machine://a", "machine://b")
folders = st.sampled_from(FOLDERS)
counts = st.integers(0, 12)

Record = tuple[str, int]
"""The run and the attempt that wrote it, and the number."""


@dataclass(frozen=True)
class Snapshot:
    position: int
    committables: tuple[bytes, ...]
    records: frozenset[Record]
    """What the committables hold."""
    folder: str
    attached: dict[str, bytes] | None = None


@dataclass
class Run:
    """A run of the job: always the same job, the same sink, and attempts from 1."""

    id: str
    folder: str
    restored: Snapshot
    attempt: int = 0
    position: int = 0
    latest: Snapshot | None = None
    prepared: list[bytes] = field(default_factory=list)
    records: set[Record] = field(default_factory=set)
    """What `prepared` holds."""
    unprepared: set[Record] = field(default_factory=set)
    writer: SinkWriter | None = None


class Sinks(RuleBasedStateMachine):
    has_links = True
    layout: ClassVar[dict[str, Any]] = {"format": "text", "roll_bytes": 40}
    #: Whether an older checkpoint can be restored into another folder, when the job has gone on.
    keeps_pieces = True
    runs = Bundle("runs")
    checkpoints = Bundle("checkpoints")
    savepoints = Bundle("savepoints")

    def __init__(self) -> None:
        super().__init__()
        self.files = MemoryFiles(has_links=self.has_links)
        file_system.register("machine", lambda: self.files)
        self.clock_seconds = 0
        self.started = 0
        #: What is in a file that was finished, by its name.
        self.contents: dict[str, frozenset[Record]] = {}
        self.living: list[Run] = []
        self.dead: set[str] = set()
        self.must: dict[str, set[Record]] = {folder: set() for folder in FOLDERS}
        self.may: dict[str, set[Record]] = {folder: set() for folder in FOLDERS}
        self.wiped: dict[str, int] = dict.fromkeys(FOLDERS, 0)

    # Runs.

    @rule(target=runs, folder=folders)
    def start(self, folder: str) -> Run:
        return self._begin(folder, Snapshot(0, (), frozenset(), folder))

    @rule(target=runs, folder=folders, snapshot=savepoints)
    def restore_savepoint(self, folder: str, snapshot: Snapshot) -> Run:
        return self._begin(folder, snapshot)

    @rule(target=runs, folder=folders, taken=checkpoints)
    def restore_checkpoint(self, folder: str, taken: tuple[int, Snapshot]) -> Run:
        age, snapshot = taken
        if age != self.wiped[snapshot.folder]:
            snapshot = Snapshot(0, (), frozenset(), folder)
        return self._begin(folder, snapshot)

    @rule(run=runs)
    def fail_over(self, run: Run) -> None:
        if run.id not in self.dead:
            if run.writer is not None:
                run.writer.close()
            self._attempt(run)

    @rule(run=runs)
    def die_and_fail_over(self, run: Run) -> None:
        if run.id not in self.dead:
            self._attempt(run)

    @rule(run=consumes(runs))
    def abandon(self, run: Run) -> None:
        self.dead.add(run.id)

    # Records.

    @rule(run=runs, count=counts)
    def write(self, run: Run, count: int) -> None:
        if run.id in self.dead or not count:
            return
        assert run.writer is not None
        numbers = range(run.position, run.position + count)
        run.writer.write(ObjectBatch([self.record(number) for number in numbers]))
        run.unprepared |= {(f"{run.id}-a{run.attempt}", number) for number in numbers}
        run.position = numbers.stop

    @rule(target=checkpoints, run=runs, count=counts, committed=st.sampled_from((0, 1, 999)))
    def checkpoint(self, run: Run, count: int, committed: int) -> object:
        """The commit may be cut off by a failure; then the next one, or the recovery, does it again."""
        if run.id in self.dead:
            return multiple()
        self.write(run, count)
        run.latest = self._snapshot(run)
        due = self._records_in(committable for committable in run.prepared if not is_held(committable))
        self.may[run.folder] |= due
        assert run.writer is not None
        run.writer.commit(run.prepared[:committed])
        if committed >= len(run.prepared):
            self.must[run.folder] |= due
            run.prepared, run.records = [], set()
        return (self.wiped[run.folder], run.latest)

    @rule(target=savepoints, run=runs, count=counts)
    def savepoint(self, run: Run, count: int) -> object:
        if run.id in self.dead:
            return multiple()
        self.write(run, count)
        taken = self._snapshot(run)
        copies = {copy.name: b"".join(copy.pieces()) for copy in self.sink(run).attachments(taken.committables)}
        return Snapshot(taken.position, taken.committables, taken.records, taken.folder, copies)

    # Disasters.

    @precondition(lambda self: any(run.prepared for run in self.living))
    @rule()
    def crash(self) -> None:
        self.files.crash()
        for run in self.living:
            if run.id not in self.dead:
                self._attempt(run)

    @precondition(lambda self: self.started > 1 + 2 * sum(self.wiped.values()))
    @rule(folder=folders)
    def wipe(self, folder: str) -> None:
        self.files.wipe(folder)
        self.wiped[folder] += 1
        self.must[folder], self.may[folder] = set(), set()
        self.dead |= {run.id for run in self.living if run.folder == folder}

    # What must hold.

    @invariant()
    def each_record_is_visible_once(self) -> None:
        for folder in FOLDERS:
            visible = self._visible(folder)
            assert len(visible) == len(set(visible)), folder
            assert self.must[folder] <= set(visible) <= self.may[folder], folder

    def _begin(self, folder: str, snapshot: Snapshot) -> Run:
        self.started += 1
        run = Run(f"run{self.started}", folder, snapshot)
        self.living.append(run)
        try:
            self._attempt(run)
        except StorageError as error:
            was_joined = not self.keeps_pieces and snapshot.folder != folder and snapshot.attached is None
            if not was_joined or "lost" not in error.fact:
                raise
            run.restored = Snapshot(0, (), frozenset(), folder)
            self._attempt(run)
        return run

    def sink(self, run: Run) -> FileSink:
        return sinks.files(run.folder, **self.layout)

    @staticmethod
    def record(number: int) -> Any:
        return number

    def _attempt(self, run: Run) -> None:
        """From the newest checkpoint of the run, or from what it was started from."""
        start = run.latest or run.restored
        run.attempt += 1
        self.may[run.folder] |= start.records
        attached = (
            None
            if start.attached is None
            else {name: (lambda content=content: iter([content])) for name, content in start.attached.items()}
        )
        attempt = AttemptNumber(run.attempt)
        self.sink(run).recover(
            job_id="job", uid="out", committables=start.committables, attempt=attempt, run=run.id, attached=attached
        )
        self.must[run.folder] |= start.records
        run.position, run.prepared, run.records, run.unprepared = start.position, [], set(), set()
        context = WriterContext("job", "out", 0, 1, attempt, run=run.id, now_seconds=lambda: self.clock_seconds)
        run.writer = self.sink(run).writer(context)

    def _snapshot(self, run: Run) -> Snapshot:
        assert run.writer is not None
        self.clock_seconds += 4  # so that the second snapshot finds files that are due
        run.prepared += run.writer.prepare(CheckpointId(1))
        run.records = self._records_in(run.prepared)
        assert run.unprepared <= run.records
        run.unprepared = set()
        return Snapshot(run.position, tuple(run.prepared), frozenset(run.records), run.folder)

    def _records_in(self, committables: Iterable[bytes]) -> set[Record]:
        found: set[Record] = set()
        for committable in committables:
            file = decode_prepared(committable)
            for piece in file.pieces if isinstance(file, RolledFile) else (file,):
                if piece.final not in self.contents:
                    self.contents[piece.final] = frozenset(
                        self._records(piece.final, self.files.read(f"{piece.folder}/.pending/{piece.pending}"))
                    )
                found |= self.contents[piece.final]
        return found

    def _visible(self, folder: str) -> list[Record]:
        found = []
        for path in self.files.paths(folder):
            if "/." not in path:
                found += self._records(path.rpartition("/")[2], self.files.read(path))
        return found

    @classmethod
    def _records(cls, name: str, content: bytes) -> list[Record]:
        match = re.search(r"-r(run\d+-a\d+)-", name)
        assert match is not None, name
        return [(match[1], number) for number in cls.numbers(content)]

    @staticmethod
    def numbers(content: bytes) -> list[int]:
        return list(map(int, content.split()))


def is_held(committable: bytes) -> bool:
    file = decode_prepared(committable)
    return isinstance(file, PreparedFile) and file.held


class RolledSinks(Sinks):
    """Files span checkpoints, in folders, and are compressed."""

    layout: ClassVar[dict[str, Any]] = {
        "format": "csv",
        "partition_by": "rest",
        "compression": "gzip",
        "roll_every": "6s",
        "roll_bytes": 200,
        "open_files": 1,
    }
    keeps_pieces = False

    @staticmethod
    def record(number: int) -> Any:
        return {"number": number, "rest": number % 2}

    @staticmethod
    def numbers(content: bytes) -> list[int]:
        header, *lines = gzip.decompress(content).split()
        assert header == b'"number"'
        return list(map(int, lines))


class RolledSinksWithoutLinks(RolledSinks):
    has_links = False


class SinksWithoutLinks(Sinks):
    """Where a file can't have two names."""

    has_links = False


TestSinks = Sinks.TestCase
TestSinksWithoutLinks = SinksWithoutLinks.TestCase
TestSinks.settings = settings(max_examples=250, stateful_step_count=30, deadline=None)
TestSinksWithoutLinks.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
TestRolledSinks = RolledSinks.TestCase
TestRolledSinksWithoutLinks = RolledSinksWithoutLinks.TestCase
TestRolledSinks.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestRolledSinksWithoutLinks.settings = settings(max_examples=15, stateful_step_count=30, deadline=None)

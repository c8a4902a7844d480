"""What must hold after every event, and at the end?

* Checkpoint ids only grow, and no id completes twice.
* Durable before acknowledged, complete before committed: what a journal entry names exists and verifies, and a sink
  makes visible only what a completed snapshot holds.
* A fenced attempt appends nothing to the journal, and completes no savepoint.
* Consistent cut: in every completed snapshot, state and output are exactly what the records before its source
  positions make of them; of a savepoint, the state is. With event time, which is not in those positions: some point of
  it explains both.
* Event time never goes back, not even over a crash, and no record comes behind it (`event_time`).
* At the end the output is that of a run without failures: not less, not more; and no work is left pending.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from itertools import chain
from typing import Any

import msgspec

from cutwater.connectors.prepared_files import PENDING
from cutwater.errors import CutwaterError, SnapshotDamagedError, StorageError
from cutwater.operators.connect import BROADCAST_STATE
from cutwater.operators.sink import COMMITTABLES_STATE, decode_committable
from cutwater.operators.source import READERS_STATE, SplitPosition
from cutwater.protocol.ids import AttemptNumber, CheckpointId
from cutwater.protocol.key_groups import MAX_PARALLELISM_LIMIT
from cutwater.protocol.modes import CheckpointMode
from cutwater.protocol.recovery import AttemptClaimed, JournalEntry, SnapshotCompleted
from cutwater.runtime import messages
from cutwater.runtime.sources import decode_assigner
from cutwater.snapshots import reader
from cutwater.snapshots.format import Manifest, TaskSnapshot
from cutwater.snapshots.names import savepoint_name, snapshot_folder
from cutwater.snapshots.reader import read_parts
from cutwater.snapshots.store import SnapshotStore
from cutwater.snapshots.tables import TablesRestore
from cutwater.state.values import load_pairs
from cutwater.testing.simulation.cases import Case, Read, States
from cutwater.testing.simulation.cluster import Watcher
from cutwater.testing.simulation.conditions import Fault
from cutwater.testing.simulation.file_output import name_of
from cutwater.testing.simulation.lineage import NOTHING, Lineage, Part, Snapshot, output_problem
from cutwater.testing.simulation.parts import Parts
from cutwater.testing.simulation.pipelines.pipeline import Pipeline
from cutwater.testing.simulation.pipelines.rows import plain
from cutwater.testing.simulation.storage import SimulatedStorage
from cutwater.testing.simulation.world import InvariantBroken, World

_position = msgspec.msgpack.Decoder(SplitPosition).decode
_broadcast_copy = msgspec.msgpack.Decoder(tuple[int, bytes]).decode
#: Zombies and the last faults cost some.
ATTEMPTS_AFTER_STORM_MAX = 60


class Checker(Watcher):
    """Watches one run."""

    def __init__(self, world: World, storage: SimulatedStorage, parts: Parts, case: Case, job_id: str) -> None:
        self._world = world
        self._storage = storage
        self._parts = parts
        self._case = case
        self._job_id = job_id
        self._store = SnapshotStore(storage.files, job_id)
        self._entries: list[JournalEntry] = []
        self._claimed_in_storm = 0
        #: By id, the attempt that completed it.
        self._completed: dict[int, int] = {}
        self.lineage = Lineage()
        #: Whether a job may end with this failure.
        self.may_refuse: Callable[[CutwaterError], bool] = lambda failure: False
        #: The snapshots that the next attempt may go on from, besides the newest of this life: what it was asked for.
        self._asked_for = NOTHING
        self._newest_of_life: str | None = None
        self._visible_before: frozenset[Part] = frozenset()
        self.attempts = 0
        #: (attempt, checkpoint) of snapshots that were still being written when a newer attempt had claimed the job.
        self._written_too_late: set[tuple[int, int]] = set()
        #: Of those that may be restored.
        self._of_savepoints: set[Part] = set()
        storage.created = self.file_created

    def life_begins(self, asked_for: str | None) -> None:
        """The next attempt goes on from this folder; None: from the newest checkpoint of all."""
        self._visible_before = self._parts.visible()
        newest = max((entry for entry in self._entries if isinstance(entry, SnapshotCompleted)), default=None, key=_id)
        self._asked_for = asked_for or NOTHING
        self._newest_of_life = newest.path if asked_for is None and newest is not None else None

    @property
    def starts_anew(self) -> bool:
        """The life that begins goes on from nothing."""
        return (self._newest_of_life or self._asked_for) == NOTHING

    def holds_output_alone(self, folder: str) -> bool:
        """The snapshot has prepared output that never became visible."""
        snapshot = self.lineage.snapshots.get(folder)
        return snapshot is not None and bool(snapshot.prepared - self._parts.visible())

    def may_commit(self) -> None:
        """What the life goes on from is known, and where its output goes: it commits before it says that it goes on."""
        lives = self._world.conditions.lives
        may_be_damaged = any(fault is Fault.DAMAGE_AT_REST for life in lives for _, fault in life.faults)
        asked_for = [self._newest_of_life or self._asked_for]
        for folder in self.lineage.snapshots if may_be_damaged else asked_for:
            self.lineage.commits(folder, self._parts.published_as)

    def forget(self) -> None:
        """Someone has deleted the job's checkpoints, and its journal with them."""
        self._store = SnapshotStore(self._storage.files, self._job_id)
        self.lineage.forget(self._job_id)
        self._entries.clear()
        self._completed.clear()
        self._written_too_late.clear()
        self._claimed_in_storm = 0

    @property
    def _newest_claim(self) -> int:
        return max((entry.attempt for entry in self._entries if isinstance(entry, AttemptClaimed)), default=0)

    # After every event.

    def coordinator_says(self, who: str, message: messages.FromCoordinator) -> None:
        match message:
            case messages.TriggerCheckpoint(attempt=attempt, checkpoint=checkpoint):
                # A zombie may use an id again that it can't publish; each attempt has files of its own.
                if attempt == self._newest_claim and checkpoint <= max(self._completed, default=0):
                    raise InvariantBroken("checkpoint ids only grow", f"{who} triggers {checkpoint} of {attempt} again")
            case messages.CheckpointCompleted(attempt=attempt, checkpoint=checkpoint):
                if self._completed.get(checkpoint) != attempt:
                    raise InvariantBroken("complete means published", f"checkpoint {checkpoint} is not in the journal")
            case messages.DeployAttempt(attempt=attempt, restore=restore) if attempt == self._newest_claim:
                self._goes_on(attempt, folder_of(restore))
            case _:
                pass

    def _goes_on(self, attempt: int, folder: str) -> None:
        expected = self._newest_of_life or self._asked_for
        if folder != expected and not self._world.injected[Fault.DAMAGE_AT_REST]:
            raise InvariantBroken("a job goes on from its newest snapshot", f"{attempt}: {folder}, not {expected}")
        self.lineage.goes_on_from(folder, self._parts.published_as, attempt)

    def slot_says(self, who: str, message: messages.FromSlot) -> None:
        if not isinstance(message, messages.SnapshotWritten):
            return
        if message.attempt < self._newest_claim:
            self._written_too_late.add((message.attempt, message.checkpoint))
        if (file := message.snapshot.file) is not None:
            checkpoint = f"{snapshot_folder(self._job_id, message.checkpoint)}/{file.path}"
            savepoint = savepoint_name(self._job_id, message.checkpoint, "")
            written = (path for path in self._storage.ever_whole if path.startswith(savepoint))
            if checkpoint not in self._storage.ever_whole and not any(path.endswith(file.path) for path in written):
                raise InvariantBroken("durable before acknowledged", f"{who} acknowledges {checkpoint}")

    def commits(self, sink: str, part: str) -> None:
        if self._case.mode is not CheckpointMode.NONE and f"{sink}/{part}" not in self._allowed:
            raise InvariantBroken("no commit without a completed checkpoint", f"{sink} commits {part}")

    def finds_nothing_to_commit(self, sink: str, part: str) -> None:
        if self._case.mode is CheckpointMode.NONE or f"{sink}/{part}" in self._of_savepoints:
            return
        if self._world.injected[Fault.DAMAGE_AT_REST]:
            # A driver that hung had chosen a snapshot that was damaged since; its successor has gone back behind it.
            raise StorageError(f"{part} was rolled back")
        raise InvariantBroken("prepared output lasts until it is committed", f"{sink} misses {part}")

    def file_published(self, path: str) -> None:
        """In whatever folder: a life that begins publishes before it has said what it goes on from."""
        name = name_of(path)
        if PENDING not in path and name not in map(name_of, self._allowed):
            raise InvariantBroken("no commit without a completed checkpoint", path)

    @property
    def _allowed(self) -> set[Part]:
        return self.lineage.ever_covered | self._of_savepoints

    def gives_up(self, attempt: int, failure: CutwaterError | None) -> bool:
        if failure is not None and self.may_refuse(failure):
            self._world.note("the job is refused: %s", failure)
            return True
        if attempt >= self._newest_claim:
            raise InvariantBroken("the job goes on whatever breaks", str(failure))
        self._world.note("attempt %s gives up, %s has claimed the job", attempt, self._newest_claim)
        return False

    def file_created(self, path: str) -> None:
        if path.startswith(f"{self._job_id}/journal/"):
            # A summary leaves out what no longer matters; here everything is remembered.
            for entry in self._store.journal():
                if entry in self._entries:
                    continue
                self._entries.append(entry)
                self._world.note("journal: %s", entry)
                if isinstance(entry, SnapshotCompleted):
                    self._completed_in_journal(entry)
                    continue
                self.attempts += 1
                if self._world.stormy:
                    self._claimed_in_storm = entry.attempt
                elif entry.attempt - self._claimed_in_storm > ATTEMPTS_AFTER_STORM_MAX:
                    raise InvariantBroken("the job restarts for ever", self._world.describe())

    def _completed_in_journal(self, entry: SnapshotCompleted) -> None:
        if entry.attempt != self._newest_claim:
            raise InvariantBroken(
                "a fenced attempt publishes nothing", f"{entry} behind a claim of {self._newest_claim}"
            )
        if entry.checkpoint in self._completed:
            raise InvariantBroken("no id completes twice", str(entry))
        is_newest = entry.checkpoint > max(self._completed, default=0)
        self._completed[entry.checkpoint] = entry.attempt
        try:
            manifest = reader.load_manifest(self._storage.files, entry.path, entry.attempt)
            problem = reader.verify(self._storage.files, entry.path, manifest)
        except SnapshotDamagedError as error:
            problem = str(error)
        if problem is not None:
            raise InvariantBroken("a completed snapshot is whole", problem)
        for task in manifest.tasks:
            if task.file is not None and f"-a{entry.attempt}." not in task.file.path:
                raise InvariantBroken("nothing of an older attempt is accepted", task.file.path)
        completed = self.lineage.completed(entry.path, entry.checkpoint, self._prepared(entry, manifest))
        # One that was given up may be published behind a newer one; nobody will restore it.
        if is_newest:
            self._newest_of_life = entry.path
            self._check_cut(entry, manifest, completed)

    def _prepared(self, entry: SnapshotCompleted, manifest: Manifest) -> set[Part]:
        return {
            self._parts.prepared(sink, decode_committable(item)[1])
            for sink in self._case.sinks
            for item in _items(self, entry, manifest, sink, COMMITTABLES_STATE)
        }

    def savepoint_taken(self, url: str) -> None:
        """The coordinator has said that it is complete."""
        folder = url.rpartition("/")[2]
        manifest = reader.load_manifest(self._storage.files, folder)
        problem = reader.verify(self._storage.files, folder, manifest)
        if problem is not None:
            raise InvariantBroken("a completed savepoint is whole", problem)
        taken = SnapshotCompleted(CheckpointId(manifest.checkpoint), AttemptNumber(manifest.attempt), folder)
        if (taken.attempt, taken.checkpoint) in self._written_too_late:
            raise InvariantBroken(
                "a fenced attempt completes no savepoint", f"{taken} behind a claim of {self._newest_claim}"
            )
        prepared = self._prepared(taken, manifest)
        self._of_savepoints |= self.lineage.taken(folder, taken.checkpoint, prepared, taken.attempt).covered
        self._check_savepoint(taken, manifest)

    # The consistent cut.

    def _check_savepoint(self, taken: SnapshotCompleted, manifest: Manifest) -> None:
        read = self._read_before(taken, manifest)
        if self._case.cut is None and self._case.pipeline is None:
            self._check_state(taken, self._case.state(read), self._keyed_state(taken, manifest))

    def _check_cut(self, entry: SnapshotCompleted, manifest: Manifest, completed: Snapshot) -> None:
        read = self._read_before(entry, manifest)
        if self._case.pipeline is not None:
            self._check_cut_of(self._case.pipeline, entry, read, completed)
            return
        found_state = self._keyed_state(entry, manifest)
        expected_output = self._case.output(read)
        found_output = Counter(self._records(completed))
        if self._case.cut is not None:
            problem = self._case.cut(read, found_state, found_output)
            if problem:
                raise InvariantBroken("consistent cut: event time", f"{entry}: {problem}")
            return
        self._check_state(entry, self._case.state(read), found_state)
        if self._case.mode is CheckpointMode.AT_LEAST_ONCE:
            return
        if found_output != expected_output:
            raise InvariantBroken("consistent cut: output", f"{entry}\n{_surplus(expected_output, found_output)}")
        if self._case.broadcast is not None:
            operator, source = self._case.broadcast
            expected = dict(Counter(read[source]))
            for item in _items(self, entry, manifest, operator, BROADCAST_STATE):
                subtask, state = _broadcast_copy(item)
                if (found := pickle.loads(state)) != expected:
                    raise InvariantBroken(
                        "consistent cut: broadcast", f"task {subtask} has {found}, expected {expected}"
                    )

    def _check_cut_of(self, pipeline: Pipeline, entry: SnapshotCompleted, read: Read, completed: Snapshot) -> None:
        """Without event time the records before the cut decide, unless some are still on their way; with it, no more
        than all records make may be there.
        """
        if pipeline.mode is not CheckpointMode.EXACTLY_ONCE or pipeline.sink != "transactional":
            return
        expected = pipeline.expected(read if pipeline.time == "none" else self._everything)
        if expected is None:
            return
        found = Counter(map(plain, self._records(completed)))
        is_decided = pipeline.time == "none" and not pipeline.keeps_rows
        if found - expected or (is_decided and found != expected):
            raise InvariantBroken("consistent cut: output", f"{entry}\n{_surplus(expected, found)}")

    def _records(self, snapshot: Snapshot) -> Iterator[Any]:
        for part in self._parts.in_order(snapshot.covered):
            yield from self._part(part)

    def _check_state(self, entry: SnapshotCompleted, expected: States, found: States) -> None:
        expected = {name: values for name, values in expected.items() if values}
        if self._case.mode is CheckpointMode.AT_LEAST_ONCE:
            self._check_no_less(entry, expected, found)
        elif found != expected:
            raise InvariantBroken("consistent cut: state", f"{entry}\n{_difference(expected, found)}")

    def _check_no_less(self, entry: SnapshotCompleted, expected: States, found: States) -> None:
        for name, values in expected.items():
            for key, value in values.items():
                if found.get(name, {}).get(key, 0) < value:
                    raise InvariantBroken("at least once: state", f"{entry}: {name} {key} below {value}")

    def _read_before(self, entry: SnapshotCompleted, manifest: Manifest) -> Read:
        """The records that lie before the source positions of a snapshot."""
        read: dict[str, list[Any]] = {}
        for uid, source in self._case.sources.items():
            positions: dict[str, int] = {}
            for item in _items(self, entry, manifest, uid, READERS_STATE):
                position = _position(item)
                if position.id in positions:
                    raise InvariantBroken("a split has one reader", f"{entry}: {uid} {position.id}")
                positions[position.id] = position.position or 0
            assigner = decode_assigner(manifest.sources[uid])
            unassigned = {split.id for split in assigner.unassigned}
            read[uid] = []
            for split, records in source.splits.items():
                if split in positions and split in unassigned:
                    raise InvariantBroken("a split has one reader", f"{entry}: {uid} {split} is also unassigned")
                if split in positions:
                    read[uid] += source.read_before(split, positions[split])
                elif split not in unassigned and (assigner.complete or source.origin_of(split) in assigner.known):
                    read[uid] += records
        return read

    def _keyed_state(self, entry: SnapshotCompleted, manifest: Manifest) -> States:
        states: States = {}
        for task in manifest.tasks:
            for operator, name, key, value in (*self._in_chunks(entry, task), *self._in_tables(entry, task)):
                values = states.setdefault((operator, name), {})
                if key in values:
                    raise InvariantBroken("a key has one owner", f"{entry}: {operator} {key}")
                values[key] = sorted(value) if isinstance(value, list) else value
        return {name: values for name, values in states.items() if values}

    def _in_chunks(self, entry: SnapshotCompleted, task: TaskSnapshot) -> Iterator[tuple[str, str, Any, Any]]:
        """(operator, state, key, value) of what a task has written for a checkpoint."""
        data = read_parts(self._storage.files, entry.path, task)
        for part in task.parts:
            for chunk in part.chunks if part.kind == "keyed" else ():
                written = data[chunk.offset : chunk.offset + chunk.length]
                for key, value in load_pairs(written, state=part.name, group=chunk.group):
                    yield part.operator, part.name, key, value

    def _in_tables(self, entry: SnapshotCompleted, task: TaskSnapshot) -> Iterator[tuple[str, str, Any, Any]]:
        """The same for a savepoint."""
        for operator in {table.operator for table in task.tables}:
            tables = TablesRestore(self._storage.files, entry.path, [task], operator, range(MAX_PARALLELISM_LIMIT))
            for rows in tables.rows():
                for key, value in zip(rows.keys, rows.values, strict=True):
                    yield operator, rows.name, key, value

    def _part(self, part: Part) -> list[Any]:
        records = self._parts.records(part)
        if records is None:
            raise InvariantBroken("prepared output lasts until it is committed", f"{part} is missing")
        return records

    # At the end of a life.

    def check_visible(self, *, complete: bool) -> None:
        """Whatever the life was asked for: see `lineage`."""
        if self._case.mode is CheckpointMode.NONE or not self._is_transactional:
            return
        problem = output_problem(
            visible=self._parts.visible(), visible_before=self._visible_before, lineage=self.lineage, complete=complete
        )
        if problem is not None:
            raise InvariantBroken("output is what the snapshots cover", problem)

    @property
    def _is_transactional(self) -> bool:
        return self._case.pipeline is None or self._case.pipeline.sink == "transactional"

    def finish(self, *, undisturbed: bool) -> None:
        """All input was read."""
        if self._case.pipeline is not None:
            self._finish_pipeline(self._case.pipeline, undisturbed=undisturbed)
            return
        expected = self._case.output(self._everything)
        found = Counter(record for part in self._visible_in_line() for record in self._part(part))
        match self._case.mode:
            case CheckpointMode.EXACTLY_ONCE:
                if found != expected:
                    raise InvariantBroken("exactly once: output", _surplus(expected, found))
                self._check_order()
            case CheckpointMode.AT_LEAST_ONCE:
                wanted, had = _by_key(expected), _by_key(found)
                if wanted - had:
                    raise InvariantBroken("at least once: output", f"missing {wanted - had}")
                if undisturbed and found != expected:
                    raise InvariantBroken("nothing failed, but the output differs", _surplus(expected, found))
            case CheckpointMode.NONE:
                if found - expected:
                    raise InvariantBroken("at most once: output", f"too many: {found - expected}")
                if undisturbed and found != expected:
                    raise InvariantBroken("nothing failed, but the output differs", _surplus(expected, found))
        self._check_nothing_pending()

    def _finish_pipeline(self, pipeline: Pipeline, *, undisturbed: bool) -> None:
        found = Counter(plain(record) for part in self._visible_in_line() for record in self._part(part))
        problem = pipeline.judge(self._everything, found, undisturbed=undisturbed)
        if problem:
            raise InvariantBroken(f"{pipeline.mode}: output", problem)
        self._check_nothing_pending()

    @property
    def _everything(self) -> Read:
        sources = self._case.sources
        return {uid: list(chain.from_iterable(source.splits.values())) for uid, source in sources.items()}

    def _check_order(self) -> None:
        if not self._case.ordered:
            return
        latest: Counter[Hashable] = Counter()
        for part in self._visible_in_line():
            for key, number in self._part(part):
                if number != latest[key] + 1:
                    raise InvariantBroken("order per key", f"{key}: {number} after {latest[key]} in {part}")
                latest[key] = number

    def _visible_in_line(self) -> list[Part]:
        """Without what only lives in other lines have written."""
        elsewhere = self.lineage.ever_covered - self.lineage.newest.covered
        return self._parts.in_order(self._parts.visible() - elsewhere)

    def _check_nothing_pending(self) -> None:
        if left := self._parts.left_pending(self._newest_claim):
            raise InvariantBroken("no work is left pending", left[0])


def _id(entry: SnapshotCompleted) -> int:
    return entry.checkpoint


def folder_of(restore: messages.RestoreOrder) -> str:
    """From the root of all there is."""
    inside = (restore.storage_url or "").partition("://")[2].partition("/")[2]
    return f"{inside}/{restore.folder}" if inside else restore.folder


def _items(checker: Checker, entry: SnapshotCompleted, manifest: Manifest, operator: str, name: str) -> Iterator[bytes]:
    for task in manifest.tasks:
        for part in task.parts:
            if part.operator == operator and part.name == name and part.kind != "keyed":
                data = read_parts(checker._storage.files, entry.path, task)
                for chunk in part.chunks:
                    yield data[chunk.offset : chunk.offset + chunk.length]


def _by_key(output: Counter[Any]) -> Counter[Any]:
    counts: Counter[Any] = Counter()
    for (key, _), count in output.items():
        counts[key] += count
    return counts


def _surplus(expected: Counter[Any], found: Counter[Any]) -> str:
    missing, extra = expected - found, found - expected
    return f"missing {sorted(missing.items(), key=str)[:8]}, too many {sorted(extra.items(), key=str)[:8]}"


def _difference(expected: States, found: States) -> str:
    lines = []
    for name in sorted(expected.keys() | found.keys()):
        left, right = expected.get(name, {}), found.get(name, {})
        both = {key: (left.get(key), right.get(key)) for key in left.keys() | right.keys()}
        wrong = {key: pair for key, pair in both.items() if pair[0] != pair[1]}
        if wrong:
            lines.append(f"{name}: (expected, found) {sorted(wrong.items(), key=str)[:8]}")
    return "\n".join(lines)

"""What does a life go on from, with which program, and how does it end?

A life is what a person starts: one launch of the job, with the drivers that take over from each other until it has
ended. The next one begins when every driver of the last is gone; slots of it may linger.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import cloudpickle

from cutwater.errors import (
    ConfigurationError,
    CutwaterError,
    GraphError,
    RecoveryRefusedError,
    SerializationError,
    SnapshotDamagedError,
)
from cutwater.graph.model import LogicalGraph
from cutwater.graph.plan import JobPlan
from cutwater.protocol.lifecycle import JobState
from cutwater.protocol.recovery import SnapshotCompleted
from cutwater.runtime import messages
from cutwater.runtime.recovering import History, check_connectors, history_of, with_key_groups_restored
from cutwater.snapshots.format import Manifest
from cutwater.snapshots.reader import load_manifest
from cutwater.snapshots.store import SnapshotStore
from cutwater.testing.simulation import registry
from cutwater.testing.simulation.checkers import folder_of
from cutwater.testing.simulation.cluster import Cluster, Watcher
from cutwater.testing.simulation.conditions import Ending, Fault, LifeConditions, Origin, Place, Program
from cutwater.testing.simulation.file_output import FileOutput
from cutwater.testing.simulation.lineage import NOTHING
from cutwater.testing.simulation.milestones import Milestones, milestone_of
from cutwater.testing.simulation.pipelines.endings import TOTALS
from cutwater.testing.simulation.storage import below
from cutwater.testing.simulation.world import Crashed, InvariantBroken

if TYPE_CHECKING:
    from cutwater.testing.simulation.run import Run

SNAPSHOTS = "simulated://snapshots"
SAVEPOINTS = "simulated://savepoints"
#: A person who hears nothing asks again.
ASK_AGAIN_SECONDS = 0.05
#: How often a life goes on from a savepoint that has output which is nowhere else, if there is one.
NEEDED_RATE = 0.7
#: Another number than the jobs have.
OTHER_KEY_GROUPS = 8


class Life(Watcher):
    """One launch of the job. It is the surroundings of its cluster, and hears what the processes say."""

    def __init__(self, run: Run, number: int, conditions: LifeConditions) -> None:
        self.run = run
        self.number = number
        self.conditions = conditions
        self.world, self.network, self.storage = run.world, run.network, run.storage
        self.milestones = Milestones(run.world)
        self.checker = self
        self.stopped = False
        self.refused = False
        origin, restore = _origin(run, conditions.origin)
        goes_on = number > 1 and origin is Origin.LATEST
        self.owner: int = run.life.owner if goes_on else number
        is_last = number == len(run.world.conditions.lives)
        backend = conditions.backend if origin is Origin.SAVEPOINT and is_last else None
        changed = _changed(run, conditions.program)
        #: What takes state of the job's own program for what it isn't, or has no place for it.
        self._incompatible = changed if conditions.program is Program.INCOMPATIBLE else None
        store = SnapshotStore(run.storage.files, run.plan.job_id, open_other=partial(below, run.storage.files))
        if number > 1:
            run.world.inject(origin)
            run.world.inject(conditions.program)
            run.world.note("life %s: %s %s, %s", number, origin, restore, conditions)
            run.checker.life_begins(_asked_for(origin, restore))
        run.checker.may_refuse = self._may_refuse
        history = history_of(restore, store, new_run=lambda: f"life{number}")
        run.parts.life_begins(self.owner, history)
        if number > 1:
            if run.file_output is not None:
                _choose_folder(run, run.file_output, history, store)
            run.checker.may_commit()
        plan = _program(run, conditions, changed, backend)
        plan = with_key_groups_restored(plan, history, store)
        pickled = bytes(cloudpickle.dumps(plan))
        self.cluster = Cluster(self, plan, pickled, history, prefix="" if number == 1 else f"life{number}.")

    @property
    def over(self) -> bool:
        return self.cluster.finished

    def begin(self) -> None:
        """Starts its driver, and lets its faults come."""
        self.world.after(0.0, self.cluster.start_coordinator)
        if self.conditions.ending is not None:
            moment, ending = self.conditions.ending
            self.milestones.at(moment, partial(self._end, ending))

    # What is heard.

    def coordinator_says(self, who: str, message: messages.FromCoordinator) -> None:
        if isinstance(message, messages.DeployAttempt) and self._incompatible is not None:
            self._starts_another(self._incompatible, message.restore)
        self.run.checker.coordinator_says(who, message)
        reached = milestone_of(message)
        if reached is not None:
            self.milestones.reached(*reached)

    def slot_says(self, who: str, message: messages.FromSlot) -> None:
        self.run.checker.slot_says(who, message)

    def gives_up(self, attempt: int, failure: CutwaterError | None) -> bool:
        self.refused = self.run.checker.gives_up(attempt, failure)
        return self.refused

    def _may_refuse(self, failure: CutwaterError) -> bool:
        """A job may end with a clear refusal where it was asked for what can't be."""
        # A flipped bit may make another version of the format: a refusal too, and one that names the file.
        is_version = isinstance(failure, ConfigurationError) and "format version" in failure.fact
        if isinstance(failure, RecoveryRefusedError) or is_version:
            return self.world.injected[Fault.DAMAGE_AT_REST] > 0
        is_other = self.conditions.program is Program.INCOMPATIBLE
        return is_other and isinstance(failure, ConfigurationError | GraphError | SerializationError)

    def _starts_another(self, program: LogicalGraph, restore: messages.RestoreOrder) -> None:
        """A program that would misread what it restores never gets this far; one that finds nothing is ended here."""
        folder = folder_of(restore)
        misread = _misread(self.run.plan.logical, program)
        with suppress(SnapshotDamagedError):  # since the job has read it
            if folder and (found := misread & _with_state(load_manifest(self.run.storage.files, folder))):
                raise InvariantBroken("a program that doesn't fit the state is refused", f"{folder}: {sorted(found)}")
        self.world.note("another program starts, and finds nothing that it would misread")
        self.cluster.bury()
        raise Crashed

    # How it ends.

    def _end(self, ending: Ending) -> None:
        """Asks until it is over: a new driver knows nothing of what the old one was asked."""
        if self.over or self.run.life is not self:
            return
        if ending is Ending.DRAIN and self.run.has_event_time:
            ending = Ending.STOP  # event time ends with a drain: what the next life reads would be late
        self.world.inject(ending)
        self._ask(ending)

    def _ask(self, ending: Ending) -> None:
        if self.over or self.run.life is not self:
            return
        official = self.cluster.official
        if ending is Ending.KILL:
            self.cluster.bury()
            return
        if official is not None:
            self.world.note("the life is to end: %s", ending)
            self.stopped = True
            coordinator = official.coordinator
            match ending:
                case Ending.STOP:
                    coordinator.stop()
                case Ending.DRAIN:
                    coordinator.stop(drain=True)
                case Ending.STOP_WITH_SAVEPOINT:
                    coordinator.stop(savepoint=SAVEPOINTS, answer=self.run.savepoint_answered)
                case Ending.CANCEL:
                    coordinator.cancel()
            official.process.wake()
        self.world.after(self.world.delay(ASK_AGAIN_SECONDS), partial(self._ask, ending))

    @property
    def complete(self) -> bool:
        """Everything that its snapshots cover must be visible."""
        return any(node.coordinator.status.state is JobState.FINISHED for node in self.cluster.nodes if node.official)


def _origin(run: Run, wanted: Origin) -> tuple[Origin, str | None]:
    """What there is to go on from, and how a launch asks for it."""
    needed = [path for path in run.savepoints if run.checker.holds_output_alone(_folder_of_savepoint(path))]
    if needed and run.world.random.random() < NEEDED_RATE:
        return Origin.SAVEPOINT, run.world.random.choice(needed)
    if wanted is Origin.SAVEPOINT and run.savepoints:
        return wanted, run.world.random.choice(run.savepoints)
    if wanted in (Origin.OLDER, Origin.SAVEPOINT) and (older := _retained(run)):
        return Origin.OLDER, f"{SNAPSHOTS}/{run.world.random.choice(older)}"
    if wanted is Origin.FORGOTTEN:
        # Who deletes a job's checkpoints makes sure that none of its processes is left: numbers begin again.
        for process in run.world.processes:
            process.end("its checkpoints are to be deleted")
        run.storage.forget(run.plan.job_id)
        run.checker.forget()
        return wanted, "latest"
    if wanted is Origin.NOTHING:
        return wanted, None
    return Origin.LATEST, "latest"


def _folder_of_savepoint(path: str) -> str:
    return path.removeprefix(f"{SAVEPOINTS}/")


def _asked_for(origin: Origin, restore: str | None) -> str | None:
    match origin:
        case Origin.LATEST:
            return None
        case Origin.OLDER:
            assert restore is not None
            return restore.removeprefix(f"{SNAPSHOTS}/")
        case Origin.SAVEPOINT:
            assert restore is not None
            return _folder_of_savepoint(restore)
        case Origin.NOTHING | Origin.FORGOTTEN:
            return NOTHING


def _retained(run: Run) -> list[str]:
    """The folders of checkpoints that are still there and can be read."""
    found = []
    for entry in SnapshotStore(run.storage.files, run.plan.job_id).journal():
        if isinstance(entry, SnapshotCompleted):
            try:
                load_manifest(run.storage.files, entry.path, entry.attempt)
            except SnapshotDamagedError:
                continue
            found.append(entry.path)
    return found


def _choose_folder(run: Run, output: FileOutput, history: History, store: SnapshotStore) -> None:
    """Who is refused a folder because it has output, says that the job may add to it."""
    place = output.moves(starts_anew=run.checker.starts_anew)
    run.world.inject(place)
    run.world.note("its output goes %s, %s if there is some", place, output.if_exists)
    expected = output.if_exists == "refuse" and run.checker.starts_anew and output.has_output_here
    plan = replace(run.plan, logical=output.placed(run.plan.logical, run.case.mode))
    try:
        with registry.entered(run):
            check_connectors(plan, history, store)
        refused = ""
    except ConfigurationError as error:
        refused = str(error)
    if bool(refused) is not expected:
        problem = refused or "a job that starts anew adds to the output of another"
        raise InvariantBroken("a folder with output is for those who go on, or say so", problem)
    if refused:
        run.world.inject(Place.REFUSED)
        output.if_exists = "append"


def _changed(run: Run, program: Program) -> LogicalGraph | None:
    """What another program has in place of the job's own graph, if it has another one."""
    match program:
        case Program.SAME:
            return None
        case Program.COMPATIBLE:
            return run.case.variant("compatible", run.world.random)
        case Program.INCOMPATIBLE:
            return run.case.variant("incompatible", run.world.random) if run.world.random.random() < 0.9 else None


def _misread(own: LogicalGraph, other: LogicalGraph) -> set[str]:
    """The operators whose state another program has no place for, or takes for that of other aggregates."""
    return own.nodes.keys() - other.nodes.keys() or {TOTALS}


def _with_state(manifest: Manifest) -> set[str]:
    """The operators that have state by key."""
    found: set[str] = set()
    for task in manifest.tasks:
        found |= {part.operator for part in task.parts if part.kind == "keyed" and part.chunks}
        found |= {database.operator for database in task.databases} | {table.operator for table in task.tables}
    return found


def _program(run: Run, conditions: LifeConditions, changed: LogicalGraph | None, backend: str | None) -> JobPlan:
    plan = run.plan
    options = plan.options if backend is None else replace(plan.options, state_backend=backend)
    if conditions.program is Program.COMPATIBLE:
        options = replace(options, chaining=not options.chaining)
    logical = run.parts.placed(changed or plan.logical, run.case.mode)
    plan = JobPlan.of(plan.name, plan.job_id, logical, options, plan.guarantees)
    if conditions.parallelism is not None:
        plan = plan.at(conditions.parallelism)
    if conditions.program is Program.INCOMPATIBLE and changed is None:
        return plan.with_key_groups(OTHER_KEY_GROUPS)  # which a user gave, and the state doesn't have
    return plan

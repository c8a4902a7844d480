"""Who lives: coordinators, their slots, and whoever starts them again?

One coordinator is the official one. When it is lost a new one starts over the same storage, while the old one may go on
for a while without knowing. Slots belong to the coordinator that had them started and end when they lose it.
"""

from __future__ import annotations

from functools import partial
from typing import Protocol

from cutwater.errors import CutwaterError
from cutwater.graph.plan import JobPlan
from cutwater.protocol.ids import SlotId
from cutwater.protocol.lifecycle import JobState
from cutwater.runtime import messages
from cutwater.runtime.coordinator import Coordinator, CoordinatorServices
from cutwater.runtime.recovering import History
from cutwater.runtime.slot import Slot
from cutwater.snapshots.storage import Storage
from cutwater.snapshots.store import SnapshotStore
from cutwater.status import JobStatus
from cutwater.testing.simulation.background import WORKERS_MAX, SimulatedBackground, SimulatedThread
from cutwater.testing.simulation.conditions import Hindrance
from cutwater.testing.simulation.event_loop import SimulatedEventLoop
from cutwater.testing.simulation.network import Line, Network, SimulatedTransport
from cutwater.testing.simulation.storage import SimulatedStorage
from cutwater.testing.simulation.world import Process, World

#: How long a coordinator goes on that was taken for dead while it waited for the storage.
CUT_OFF_SECONDS = 2.0
#: So often in one life: each one cut off while it recovers leaves a driver behind that recovers, too.
CUT_OFF_MAX = 4
JOURNAL_LENGTH_MAX = 2


class Watcher:
    """Hears what the processes say; a checker objects to some of it."""

    def coordinator_says(self, who: str, message: messages.FromCoordinator) -> None: ...

    def slot_says(self, who: str, message: messages.FromSlot) -> None: ...

    def gives_up(self, attempt: int, failure: CutwaterError | None) -> bool:
        """True: rightly, and the job is over."""
        return True


class Surroundings(Protocol):
    """What a cluster stands in."""

    @property
    def world(self) -> World: ...
    @property
    def network(self) -> Network: ...
    @property
    def storage(self) -> SimulatedStorage: ...
    @property
    def checker(self) -> Watcher: ...
    @property
    def cluster(self) -> Cluster: ...
    @property
    def owner(self) -> int: ...


class SlotNode:
    """A slot's process and its line to the coordinator."""

    def __init__(self, run: Surroundings, name: str, owner: CoordinatorNode) -> None:
        self.run = run
        self.id = SlotId(name)
        self.owner = owner
        world = run.world
        self.process = Process(world, name)
        self.process.owner = owner.process.owner
        _set_clock(self.process)
        transport = SimulatedTransport(run.network, self.process)
        self.line = Line(world, name, to_slot=self._hear, to_coordinator=partial(owner.hear, self.id))
        self.slot = Slot(
            self.id,
            clock=self.process.clock,
            link=self,
            transport=transport,
            background=SimulatedBackground(world, self.process),
            opening=SimulatedBackground(world, self.process),
            storage=self._open_storage,
            wake=self.process.wake,
            event_loop=partial(SimulatedEventLoop, world, self.process),
            own_thread=partial(SimulatedThread, world, self.process),
        )
        self.process.actor = self.slot
        self.process.after_step = self._end_if_told
        self.process.on_end.append(self._on_end)
        self.send(messages.SlotRegistered(self.id, transport.address, "simulated", 0))

    def send(self, message: messages.FromSlot) -> None:
        """The SlotLink seam."""
        self.run.checker.slot_says(self.id, message)
        self.line.send_up(message)

    def _open_storage(self, url: str) -> Storage:
        """Called when tasks are deployed, by which time the slot may be slow."""
        world = self.run.world
        if world.conditions.slow_opens and world.stormy and world.random.random() < world.conditions.slow_opens:
            world.inject(Hindrance.SLOW_OPEN)
            world.pause(world.delay(world.conditions.slow_seconds))
        return self.run.storage.at(url)

    def partition(self) -> None:
        """The line breaks: the coordinator hears of it, and the slot goes on until it does."""
        world = self.run.world
        self.line.cut()
        self.owner.will_miss(self)
        delay = world.delay(world.conditions.zombie_seconds)
        world.after(delay, lambda: self.process.end("lost its coordinator"))

    def _hear(self, message: messages.FromCoordinator) -> None:
        if self.process.alive:
            self.slot.deliver(message)
            self.process.wake()

    def _end_if_told(self) -> None:
        if self.slot.ended:
            self.process.end("was told to end")

    def _on_end(self) -> None:
        self.run.network.drop(self.process)
        self.line.cut()
        self.owner.will_miss(self)


class CoordinatorNode:
    """A driver's process: the coordinator, its lines and its provider of slots."""

    def __init__(self, run: Surroundings, name: str, plan: JobPlan, pickled_plan: bytes, history: History) -> None:
        self.run = run
        self.official = True
        self.can_start_slots = True
        self.slots: dict[SlotId, SlotNode] = {}
        self._wanted = 0
        self._starting = 0
        self._started = 0
        self._missed: set[SlotId] = set()
        world = run.world
        self.process = Process(world, name)
        # Without checkpoints nothing survives the driver: a new one would start the job, not go on with it.
        self.process.leads = True
        self.process.mortal = plan.options.checkpoints.enabled
        self.process.owner = run.owner
        _set_clock(self.process)
        store = SnapshotStore(
            run.storage, plan.job_id, journal_length_max=JOURNAL_LENGTH_MAX, open_other=run.storage.at, driver=name
        )
        parallel = world.conditions.parallel_background
        services = CoordinatorServices(
            clock=self.process.clock,
            lines=self,
            provider=self,
            background=SimulatedBackground(
                world,
                self.process,
                workers_max=WORKERS_MAX if parallel else 1,
                locked=store._journal_lock.locked,
            ),
            store=store,
            new_token=lambda: f"{world.random.getrandbits(64):016x}",
            random=world.random.random,
            listeners=(self._listen,),
        )
        self.coordinator = Coordinator(plan, pickled_plan, services, history)
        self.status: JobStatus = self.coordinator.status
        self.process.actor = self.coordinator
        self.process.after_step = self._end_if_over
        self.process.on_end.append(self._on_end)
        self.coordinator.start()
        self.process.wake()

    # The SlotLines seam.

    def send(self, slot: SlotId, message: messages.FromCoordinator) -> None:
        node = self.slots.get(slot)
        if node is not None:
            self.run.checker.coordinator_says(self.process.name, message)
            node.line.send_down(message)

    def hang_up(self, slot: SlotId) -> None:
        node = self.slots.get(slot)
        if node is not None:
            node.partition()

    # The SlotProvider seam.

    def ensure(self, count: int) -> None:
        self._wanted = count
        self._start_missing()

    def replace(self, slot: SlotId) -> None:
        """The line that was hung up on is missed in a moment, and then the slot is replaced."""

    def shortage(self) -> str:
        return f"{len(self.slots)} of {self._wanted} slots"

    def _start_missing(self) -> None:
        if not self.can_start_slots:
            return
        world = self.run.world
        while len(self.slots) + self._starting < self._wanted:
            self._starting += 1
            world.after(world.delay(world.conditions.slot_start_seconds), self._start_slot)

    def _start_slot(self) -> None:
        self._starting -= 1
        if self.process.alive and len(self.slots) < self._wanted:
            self._started += 1
            node = SlotNode(self.run, f"{self.process.name}.s{self._started}", self)
            self.slots[node.id] = node

    # What befalls it.

    def hear(self, slot: SlotId, message: messages.FromSlot) -> None:
        if self.process.alive:
            self.coordinator.deliver(slot, message)
            self.process.wake()

    def will_miss(self, node: SlotNode) -> None:
        """The slot's line broke: this is noticed after what it has said, once."""
        if node.id in self._missed:
            return
        self._missed.add(node.id)
        world = self.run.world
        delay = world.delay(world.conditions.notice_seconds)
        world.at(node.line.up.after_the_rest(delay), partial(self._miss, node))

    def _miss(self, node: SlotNode) -> None:
        del self.slots[node.id]
        if self.process.alive:
            self.coordinator.slot_lost(node.id, "the line broke")
            self.process.wake()
            self._start_missing()

    def partition(self, *, lives_seconds: float) -> None:
        """Cut off from its slots, but not from the storage."""
        self.official = False
        world = self.run.world
        world.note("%s is cut off", self.process.name)
        self.can_start_slots = world.random.random() < 0.5
        for node in list(self.slots.values()):
            node.partition()
        world.after(world.delay(lives_seconds), lambda: self.process.end("a zombie no more"))

    def _listen(self, status: JobStatus) -> None:
        self.status = status

    def _end_if_over(self) -> None:
        if self.coordinator.ended:
            self.process.end(f"job {self.coordinator.status.state}")

    def _on_end(self) -> None:
        for node in list(self.slots.values()):
            node.partition()
        self.run.cluster.coordinator_ended(self)


class Cluster:
    """Keeps one official coordinator alive until the job is finished."""

    def __init__(
        self, run: Surroundings, plan: JobPlan, pickled_plan: bytes, history: History, *, prefix: str = ""
    ) -> None:
        """`prefix`: of the names of its processes."""
        self.run = run
        self._prefix = prefix
        self._plan = plan
        self._pickled_plan = pickled_plan
        self._history = history
        self.nodes: list[CoordinatorNode] = []
        self.finished = False
        self._cut_off = 0

    @property
    def official(self) -> CoordinatorNode | None:
        newest = self.nodes[-1] if self.nodes else None
        return newest if newest is not None and newest.official and newest.process.alive else None

    @property
    def slots(self) -> list[SlotNode]:
        """All living ones, of all coordinators."""
        return [slot for node in self.nodes for slot in node.slots.values() if slot.process.alive]

    def start_coordinator(self) -> None:
        if not self.finished:
            name = f"{self._prefix}c{len(self.nodes) + 1}"
            self.nodes.append(CoordinatorNode(self.run, name, self._plan, self._pickled_plan, self._history))

    def replace(self, node: CoordinatorNode) -> None:
        """Somebody notices that the official coordinator is lost, and starts another one."""
        world = self.run.world
        node.official = False
        world.after(world.delay(world.conditions.slot_start_seconds), self.start_coordinator)

    def cut_off(self, process: Process) -> bool:
        """Takes the official coordinator for dead in the middle of something, if this is it."""
        official = self.official
        if official is None or official.process is not process or self._cut_off >= CUT_OFF_MAX:
            return False
        self._cut_off += 1
        official.partition(lives_seconds=CUT_OFF_SECONDS)
        self.replace(official)
        return True

    def coordinator_ended(self, node: CoordinatorNode) -> None:
        if not node.official or self.finished:
            return
        status = node.coordinator.status
        # Only one that was superseded may give up (it is fenced, or what it restores from is deleted under it), or one
        # that was asked for what can't be.
        ended = status.state in (JobState.FINISHED, JobState.CANCELLED)
        failed = status.state is JobState.FAILED
        if ended or (failed and self.run.checker.gives_up(status.attempt, node.coordinator.failure)):
            # Now, not when whatever waits has returned: nothing in the journal says that a job was ended, so another
            # driver of it could go on.
            self.bury()
        else:
            self.replace(node)

    def bury(self) -> None:
        """Ends every driver; slots notice it after a while."""
        self.finished = True
        for node in self.nodes:
            node.process.end("its life is over")


def _set_clock(process: Process) -> None:
    world = process.world
    if world.conditions.skew_seconds:
        world.inject(Hindrance.SKEWED_CLOCKS)
        process.clock.wrong_by_ms = int(world.random.uniform(-1.0, 1.0) * world.conditions.skew_seconds * 1000)

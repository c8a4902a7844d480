"""What happens next, and when?

A discrete-event simulation: everything that will happen is an action at a moment of virtual time, and whoever adds one
draws its delay from the one random generator of the seed. Two things that are under way at the same time therefore
finish in either order, and the same seed always decides it the same way.

Production code blocks in storage operations. Then `World.pause` runs the events of everybody else on top of the
blocked call, until its time has come: no thread is needed for another process to act between two operations.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from random import Random
from typing import Any, Protocol

from cutwater.testing.simulation.conditions import Conditions, Kind
from cutwater.testing.simulation.trace import Trace

Action = Callable[[], None]

#: Operations that wait on top of each other; more would only make the Python stack deep.
NESTED_PAUSES_MAX = 8
#: An operation ends only when those on top of it have: when it is so late, no other begins to wait.
PAUSE_LATE_SECONDS_MAX = 0.5
_EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class InvariantBroken(BaseException):
    """What the simulator is for. Not an `Exception`: production code must not be able to handle it."""

    def __init__(self, invariant: str, detail: str = "") -> None:
        separator = ":" if detail.startswith("\n") else ": "
        super().__init__(f"{invariant}{separator}{detail}" if detail else invariant)
        self.invariant = invariant
        self.detail = detail


class Crashed(BaseException):
    """The process that runs this code is gone; raised out of a storage operation, swallowed at the process' edge."""


class World:
    """Virtual time, and all that is to come."""

    def __init__(
        self, conditions: Conditions, random: Random, trace: Trace, *, events_max: int, seconds_max: float
    ) -> None:
        self.now = 0.0
        self.conditions = conditions
        self.random = random
        self.trace = trace
        self.events = 0
        #: The process whose code runs right now.
        self.current: Process | None = None
        self.describe: Callable[[], str] = str
        #: All there ever were.
        self.processes: list[Process] = []
        #: How often each kind of fault struck.
        self.injected: Counter[Kind] = Counter()
        #: From here on nothing new breaks.
        self.calm_from = conditions.quiet_after_seconds
        self._events_max = events_max
        self._seconds_max = seconds_max
        self._heap: list[tuple[float, int, Action]] = []
        self._numbered = 0
        #: The ends of all operations that wait, each on top of the one before.
        self._pauses: list[float] = []

    def wall_ms(self) -> int:
        return int((_EPOCH + timedelta(seconds=self.now)).timestamp() * 1000)

    def timestamp(self) -> str:
        return (_EPOCH + timedelta(seconds=self.now)).isoformat()

    # Time.

    def at(self, moment: float, action: Action) -> None:
        self._numbered += 1
        heapq.heappush(self._heap, (moment, self._numbered, action))

    def after(self, delay_seconds: float, action: Action) -> None:
        self.at(self.now + delay_seconds, action)

    def delay(self, mean_seconds: float) -> float:
        """Mostly about the mean; now and then many times as long, while the storm lasts."""
        random = self.random
        drawn = random.expovariate(1.0) * mean_seconds
        tail = self.conditions.tail
        return drawn * 25.0 if tail and random.random() < tail and self.stormy else drawn

    @property
    def stormy(self) -> bool:
        """Faults still happen."""
        return self.now < self.calm_from

    def inject(self, kind: Kind) -> None:
        """A fault strikes: it is counted."""
        self.injected[kind] += 1

    def note(self, template: str, *values: Any) -> None:
        if self.trace.on:
            self.trace.add(self.now, template, *values)

    def run(self, over: Callable[[], bool]) -> None:
        """Until `over()` or nothing is left to happen."""
        while self._heap and not over():
            self._next()

    def run_for(self, seconds: float) -> None:
        until = self.now + seconds
        while self._heap and self._heap[0][0] <= until:
            self._next()

    def pause(self, seconds: float) -> None:
        """The code that runs now takes this long; everybody else goes on meanwhile."""
        process = self.current
        if (
            len(self._pauses) >= NESTED_PAUSES_MAX
            or self.now - min(self._pauses, default=self.now) > PAUSE_LATE_SECONDS_MAX
        ):
            return
        until = self.now + seconds
        self._pauses.append(until)
        while self._heap and self._heap[0][0] <= until:
            self._next()
        self._pauses.pop()
        self.now = max(self.now, until)
        self.current = process
        if process is not None and not process.alive:
            raise Crashed

    def _next(self) -> None:
        moment, _, action = heapq.heappop(self._heap)
        if moment > self.now:
            self.now = moment
        self.events += 1
        if self.events > self._events_max or self.now > self._seconds_max:
            raise InvariantBroken("the run never ends", f"{self.events} events\n{self.describe()}")
        action()


class ProcessClock:
    """The clocks of one process. Its wall clock may be wrong, and jump."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.wrong_by_ms = 0

    def now_seconds(self) -> float:
        return self._world.now

    def wall_ms(self) -> int:
        return self._world.wall_ms() + self.wrong_by_ms

    def timestamp(self) -> str:
        return self._world.timestamp()


class Actor(Protocol):
    def step(self) -> bool: ...
    def wake_at(self) -> float | None: ...
    def post(self, work: Action) -> None: ...


class Process:
    """An operating system process with one actor in it; what it runs vanishes with it."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        world.processes.append(self)
        self.name = name
        self.alive = True
        #: False: it never crashes by itself.
        self.mortal = True
        #: A coordinator's.
        self.leads = False
        #: Which life's: what it writes is told apart from what other lives write.
        self.owner = 1
        self.clock = ProcessClock(world)
        self.actor: Actor | None = None
        self.after_step: Action = _nothing
        self.on_end: list[Action] = []
        self.stalled_until = 0.0
        self._scheduled: float | None = None
        self._version = 0
        self._stepping = False
        self._woken = False

    def wake(self) -> None:
        """There may be something to do: step soon."""
        if self._stepping:
            self._woken = True
        elif self.alive and self.actor is not None:
            self._schedule(self.world.now + self.world.delay(self.world.conditions.step_seconds))

    def end(self, reason: str) -> None:
        """Ends the process at once, whatever it was doing."""
        if self.alive:
            self.alive = False
            self.world.note("%s ends: %s", self.name, reason)
            for action in self.on_end:
                action()

    def post(self, work: Action) -> None:
        if self.alive and self.actor is not None:
            self.actor.post(work)
            self.wake()

    def _schedule(self, moment: float) -> None:
        moment = max(moment, self.stalled_until)
        if self._scheduled is None or moment < self._scheduled:
            self._scheduled = moment
            self._version += 1
            self.world.at(moment, partial(self._step, self._version))

    def _step(self, version: int) -> None:
        if version != self._version or not self.alive or self.actor is None:
            return
        world, self._scheduled, self._woken, self._stepping = self.world, None, False, True
        before, world.current = world.current, self
        try:
            worked = self.actor.step()
        except Crashed:
            return
        except Exception as error:
            raise InvariantBroken(f"{self.name} died of its own error", _where(error)) from error
        finally:
            self._stepping = False
            world.current = before
        self.after_step()
        if not self.alive:
            return
        if worked or self._woken:
            self.wake()
        elif (wake_at := self.actor.wake_at()) is not None:
            self._schedule(max(wake_at, world.now + world.delay(world.conditions.step_seconds)))


def _nothing() -> None:
    pass


def _where(error: BaseException) -> str:
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    place = f" ({frame.tb_frame.f_code.co_filename}:{frame.tb_lineno})" if frame is not None else ""
    return f"{type(error).__name__}: {error}{place}"

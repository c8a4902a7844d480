"""When is work off an actor's thread done, and what is left of it when its process dies?

A job begins some time after it was submitted and may pause in every storage operation. Its result waits once more
before the actor hears of it. Whatever dies in between was done or not, and nobody is told.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from cutwater.testing.simulation.world import Crashed, Process, World

Done = Callable[[Any, BaseException | None], None]

#: As many threads as a driver has for it.
WORKERS_MAX = 4


class SimulatedBackground:
    """`Background` of one process.

    Jobs run on top of each other where they pause, so one that waited for a lock that another holds would wait for
    ever. `locked` says whether one does: then the next job begins only when it is done.
    """

    def __init__(
        self,
        world: World,
        process: Process,
        *,
        workers_max: int = WORKERS_MAX,
        locked: Callable[[], bool] = lambda: False,
    ) -> None:
        self._world = world
        self._process = process
        self._workers_max = workers_max
        self._locked = locked
        self._running = 0
        self._waiting: deque[tuple[Callable[[], Any], Done]] = deque()

    def submit(self, work: Callable[[], Any], done: Done) -> None:
        self._world.after(self._world.delay(self._world.conditions.work_seconds), partial(self._begin, work, done))

    def _begin(self, work: Callable[[], Any], done: Done) -> None:
        if self._running >= self._workers_max or (self._running and self._locked()):
            self._waiting.append((work, done))
        else:
            self._run(work, done)

    def _run(self, work: Callable[[], Any], done: Done) -> None:
        world, process = self._world, self._process
        if not process.alive:
            return
        before, world.current = world.current, process
        self._running += 1
        result: Any = None
        problem: Exception | None = None
        try:
            result = work()
        except Crashed:
            return
        except Exception as error:
            problem = error
        finally:
            self._running -= 1
            world.current = before
        world.note("%s has done work: %s", process.name, "ok" if problem is None else type(problem).__name__)
        delay = world.delay(world.conditions.work_seconds)
        world.after(delay, lambda: process.post(lambda: done(result, problem)))
        if self._waiting:
            world.after(0.0, partial(self._begin, *self._waiting.popleft()))


class SimulatedThread:
    """`OwnThread` of one writer."""

    def __init__(self, world: World, process: Process, post: Callable[[Callable[[], None]], None]) -> None:
        self._background = SimulatedBackground(world, process, workers_max=1)
        self._post = post
        self._closed = False

    def submit(self, work: Callable[[], Any], done: Done) -> None:
        def run() -> Any:
            return None if self._closed else work()

        def tell(result: Any, error: BaseException | None) -> None:
            if not self._closed:
                self._post(lambda: done(result, error))

        self._background.submit(run, tell)

    def close(self) -> None:
        self._closed = True

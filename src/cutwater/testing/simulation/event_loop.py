"""How do coroutines run in virtual time, without a thread?

Each call runs to its end as soon as it is begun, on an event loop whose clock jumps: where it would sleep, its time
passes at once. As much virtual time later, and a little more, its result arrives. A coroutine that talks to the
outside or uses threads really waits for them, and takes as long as it takes.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Any

from cutwater.errors import UserError
from cutwater.operators.contract import FinishedCalls
from cutwater.testing.simulation.world import Process, World

#: The loop's own pipe.
_OWN_FILES = 1


class JumpingLoop(asyncio.SelectorEventLoop):
    """An event loop whose time passes only while a coroutine waits for it."""

    def __init__(self) -> None:
        self.now_seconds = 0.0
        self.uses_threads = False
        super().__init__(_JumpingSelector(self))

    def time(self) -> float:
        return self.now_seconds

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        self.uses_threads = True
        return super().run_in_executor(executor, func, *args)

    def finish(self, awaitable: Awaitable[Any]) -> Any:
        """Runs it to its end, also where another loop is running: in a notebook, or further down the stack."""
        running = asyncio._get_running_loop()
        asyncio._set_running_loop(None)
        try:
            return self.run_until_complete(awaitable)
        finally:
            asyncio._set_running_loop(running)


class _JumpingSelector(selectors.DefaultSelector):
    def __init__(self, loop: JumpingLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = super().select(0)
        if found or (timeout is not None and timeout <= 0):
            return found
        if len(self.get_map()) > _OWN_FILES or self._loop.uses_threads:
            begun = time.monotonic()
            found = super().select(timeout)
            self._loop.now_seconds += time.monotonic() - begun
            return found
        if timeout is None:
            raise UserError(
                "a coroutine waits for something that never comes",
                detail="in virtual time calls run one after the other, so none can wait for another",
            )
        self._loop.now_seconds += timeout
        return found


class SimulatedEventLoop:
    """The `EventLoop` of one operator."""

    def __init__(
        self,
        world: World,
        process: Process,
        post: Callable[[Callable[[], None]], None],
        done: Callable[[FinishedCalls], None],
    ) -> None:
        self._world = world
        self._process = process
        self._post = post
        self._done = done
        self._loop = JumpingLoop()
        process.on_end.append(self._loop.close)

    def start(self, calls: Sequence[tuple[Any, Callable[[], Awaitable[Any]]]]) -> None:
        for call, begin in calls:
            result: Any = None
            problem: BaseException | None = None
            begun_seconds = self._loop.now_seconds
            try:
                result = self._loop.finish(begin())
            except (Exception, SystemExit, asyncio.CancelledError) as error:
                problem = error
            took_seconds = self._loop.now_seconds - begun_seconds
            delay_seconds = took_seconds + self._world.delay(self._world.conditions.work_seconds)
            self._world.after(delay_seconds, partial(self._arrive, call, result, problem))

    def close(self, last: Callable[[], Awaitable[Any]] | None) -> None:
        try:
            if last is not None:
                self._loop.finish(last())
        finally:
            self._loop.close()

    def _arrive(self, call: Any, result: Any, problem: BaseException | None) -> None:
        if self._process.alive and not self._loop.is_closed():
            self._post(lambda: self._done([(call, result, problem)]))

"""Where do the coroutines of a user's function run?

On an event loop with a thread of its own, one for each task that has such a function. Calls are brought there many at
once, and so are their results brought back: to wake a thread costs more than a small call.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import TimeoutError as NotInTime
from functools import partial
from typing import Any

from cutwater.operators.contract import FinishedCalls

#: A call that can't be interrupted, or a session that can't be closed, is left to itself after this long.
CLOSING_SECONDS_MAX = 5.0


class EventLoopThread:
    """An `EventLoop`. `post` brings a call to the owner's thread, and is called on the loop's own."""

    def __init__(self, post: Callable[[Callable[[], None]], None], done: Callable[[FinishedCalls], None]) -> None:
        self._post = post
        self._done = done
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="cutwater-event-loop", daemon=True)
        # The rest belongs to that thread.
        self._under_way: set[asyncio.Task[None]] = set()
        self._finished: list[tuple[Any, Any, BaseException | None]] = []
        self._closing = False
        self._thread.start()

    def start(self, calls: Sequence[tuple[Any, Callable[[], Awaitable[Any]]]]) -> None:
        self._loop.call_soon_threadsafe(self._begin, calls)

    def close(self, last: Callable[[], Awaitable[Any]] | None) -> None:
        closing = asyncio.run_coroutine_threadsafe(self._end(last), self._loop)
        try:
            closing.result(CLOSING_SECONDS_MAX)
        except NotInTime:
            if closing.done():
                raise  # the last call's own
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            if closing.done():
                self._thread.join(CLOSING_SECONDS_MAX)

    # On the loop's own thread.

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()

    def _begin(self, calls: Sequence[tuple[Any, Callable[[], Awaitable[Any]]]]) -> None:
        if self._closing:
            return
        for call, begin in calls:
            task = self._loop.create_task(self._make(call, begin))
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)

    async def _make(self, call: Any, begin: Callable[[], Awaitable[Any]]) -> None:
        result: Any = None
        error: BaseException | None = None
        try:
            result = await begin()
        except BaseException as raised:  # `sys.exit` in it too: the owner decides
            error = raised
        if self._closing:
            return
        if not self._finished:
            # What else finishes in this turn of the loop comes along.
            self._loop.call_soon(self._tell)
        self._finished.append((call, result, error))

    def _tell(self) -> None:
        finished, self._finished = self._finished, []
        if not self._closing:
            self._post(partial(self._done, finished))

    async def _end(self, last: Callable[[], Awaitable[Any]] | None) -> None:
        self._closing = True
        under_way = list(self._under_way)
        for task in under_way:
            task.cancel()
        if under_way:
            await asyncio.wait(under_way, timeout=CLOSING_SECONDS_MAX / 2)
        if last is not None:
            await last()

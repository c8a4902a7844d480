"""What drives the single-threaded actors (slot, coordinator) with real time and real threads?"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Protocol


class MonotonicClock:
    """The machine's monotonic clock."""

    def now_seconds(self) -> float:
        return time.monotonic()

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def timestamp(self) -> str:
        return datetime.now(UTC).isoformat(timespec="milliseconds")


class Actor(Protocol):
    """Something that does a bit of work whenever it is stepped, always on the same thread."""

    def step(self) -> bool:
        """Does what can be done now, without blocking; True when there was anything to do."""
        ...

    def wake_at(self) -> float | None:
        """When the next step is due by the clock, if nothing happens before."""
        ...


class ActorLoop:
    """Steps an actor, and sleeps while it has nothing to do. `post` and `wake` are for any thread."""

    def __init__(self, clock: MonotonicClock) -> None:
        self._clock = clock
        self._calls: deque[Callable[[], None]] = deque()
        self._woken = threading.Event()

    def post(self, call: Callable[[], None]) -> None:
        """Runs the call on the actor's thread, before its next step, in the order of posting."""
        self._calls.append(call)
        self._woken.set()

    def wake(self) -> None:
        """Something happened: step again. Costs next to nothing when the actor is awake."""
        if not self._woken.is_set():
            self._woken.set()

    def run(self, actor: Actor, ended: Callable[[], bool]) -> None:
        """On the actor's thread: returns once `ended()` holds between two steps. What a step raises ends it too."""
        while not ended():
            self._woken.clear()
            had_calls = self._run_calls()
            if actor.step() or had_calls or ended():
                continue
            self._woken.wait(self._pause_seconds(actor))

    def _run_calls(self) -> bool:
        if not self._calls:
            return False
        for _ in range(len(self._calls)):
            self._calls.popleft()()
        return True

    def _pause_seconds(self, actor: Actor) -> float | None:
        wake_at = actor.wake_at()
        return None if wake_at is None else max(0.0, wake_at - self._clock.now_seconds())


CLOSE_WAIT_SECONDS = 1.0

_Work = tuple[Callable[[], Any], Callable[[Any, BaseException | None], None]]


class ThreadBackground:
    """A `Background` of daemon threads: work that hangs (storage, say) holds up no exit of the process.

    `post` brings a call to the owner's thread: `ActorLoop.post`.
    """

    def __init__(self, *, workers_max: int, post: Callable[[Callable[[], None]], None]) -> None:
        self._workers_max = workers_max
        self._post = post
        self._queue: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._workers = 0
        self._unfinished = 0
        self._idle = threading.Condition(self._lock)
        self._closed = threading.Event()

    def submit(self, work: Callable[[], Any], done: Callable[[Any, BaseException | None], None]) -> None:
        with self._lock:
            if self._closed.is_set():
                return
            self._unfinished += 1
            starts = self._unfinished > self._workers and self._workers < self._workers_max
            self._workers += starts
            self._queue.put((work, done))
        if starts:
            threading.Thread(target=self._run, name="cutwater-background", daemon=True).start()

    def drain(self, seconds: float) -> None:
        """Blocks until all work is done, or so long."""
        with self._idle:
            self._idle.wait_for(lambda: self._unfinished == 0, seconds)

    def close(self) -> None:
        """Work that has not begun is forgotten; what runs now runs to its end, but reports to nobody."""
        with self._lock:
            self._closed.set()
            for _ in range(self._workers):
                self._queue.put(None)

    def _run(self) -> None:
        while (item := self._queue.get()) is not None and not self._closed.is_set():
            work, done = item
            result: Any = None
            error: BaseException | None = None
            try:
                result = work()
            except BaseException as raised:  # the owner decides
                error = raised
            with self._lock:
                self._unfinished -= 1
                self._idle.notify_all()
                if self._closed.is_set():
                    return
            self._post(_call(done, result, error))


class OwnBackgroundThread(ThreadBackground):
    """An `OwnThread`: one of them, which nothing else waits for."""

    def __init__(self, post: Callable[[Callable[[], None]], None]) -> None:
        super().__init__(workers_max=1, post=post)

    def close(self) -> None:
        super().close()
        self.drain(CLOSE_WAIT_SECONDS)


def _call(
    done: Callable[[Any, BaseException | None], None], result: Any, error: BaseException | None
) -> Callable[[], None]:
    return lambda: done(result, error)

"""How does a split of a server become a reader that never waits?

A connector writes a `Fetcher`: it connects, fetches, acknowledges, and may block. `FetchingReader` runs it on a thread
of its own, a few batches ahead of the loop, wakes the loop when there is something, and connects again when the server
was gone.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cutwater.batches import Batch
from cutwater.connectors.bases.patience import PATIENCE_SECONDS, Patience
from cutwater.connectors.contract import ReaderContext, SplitReader, Unreadable
from cutwater.connectors.failures import PeerError

#: Batches that wait for the loop.
FETCHED_MAX = 4
#: How long `Fetcher.fetch` may wait for records: what it must notice meanwhile (the end, an acknowledgement) waits too.
FETCH_WAIT_SECONDS = 0.2
FIRST_LIMIT = 1024
CLOSE_WAIT_SECONDS = 1.0
#: Between two signs of life, while the loop takes nothing.
KEEP_ALIVE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Fetched:
    """Records in the order of the split, and where to resume behind them."""

    position: Any
    batch: Batch | None = None
    #: Nothing will follow.
    ends_split: bool = False
    watermark_ms: int | None = None
    #: Records behind these that are there already; None: unknown.
    lag: int | None = None
    #: What could not be decoded, of the records up to the position. Only if `ReaderContext.tolerant`.
    unreadable: Sequence[Unreadable] = ()


class Fetcher(ABC):
    """The client of one split. Every method is called on one thread, the reader's own, and may block."""

    @abstractmethod
    def connect(self, position: Any) -> None:
        """Before the first `fetch`, and again after a `PeerError`: behind this position (None: the beginning)."""

    @abstractmethod
    def fetch(self, limit: int) -> Fetched | None:
        """The next records, as soon as there are any; None when none came within `FETCH_WAIT_SECONDS`.

        `PeerError`: the server is gone, and may come back. Any other exception fails the attempt.
        """

    def acknowledge(self, position: Any) -> None:
        """A completed checkpoint holds everything up to this position. Positions in between may be left out."""

    def keep_alive(self) -> None:
        """Every few seconds while the loop has no room: a client without a thread of its own answers heartbeats."""

    def close(self) -> None:
        """Releases the connection. Also before `connect` is called again, and when it failed."""


class FetchingReader(SplitReader):
    """Reads what its fetcher fetches."""

    wakes_loop = True

    def __init__(
        self,
        fetcher: Fetcher,
        position: Any,
        context: ReaderContext,
        *,
        name: str,
        patience_seconds: float | None = None,
    ) -> None:
        """`name`: of source and split, for people."""
        self._fetcher = fetcher
        self._context = context
        self._position = position
        self._watermark_ms: int | None = None
        self._lag: int | None = None
        self._unreadable: Sequence[Unreadable] = ()
        self._limit = FIRST_LIMIT
        self._fetched: deque[Fetched] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._ended = False
        self._failure: BaseException | None = None
        self._acknowledged: Any = None
        seconds = PATIENCE_SECONDS if patience_seconds is None else patience_seconds
        self._patience = Patience(name, now_seconds=time.monotonic, seconds=seconds)
        self._thread = threading.Thread(target=self._run, args=(position,), name=f"cutwater-{name}", daemon=True)
        self._thread.start()

    # On the loop's thread.

    def read(self, limit: int, now_seconds: float) -> Batch | None:
        with self._changed:
            self._limit = limit
            if not self._fetched:
                if self._failure is not None:
                    raise self._failure
                return None
            taken = self._fetched.popleft()
            self._changed.notify()
        self._position = taken.position
        self._lag = taken.lag
        self._unreadable = taken.unreadable
        if taken.watermark_ms is not None:
            self._watermark_ms = taken.watermark_ms
        return taken.batch

    def take_unreadable(self) -> Sequence[Unreadable]:
        unreadable, self._unreadable = self._unreadable, ()
        return unreadable

    @property
    def position(self) -> Any:
        return self._position

    @property
    def finished(self) -> bool:
        with self._changed:
            return self._ended and not self._fetched

    @property
    def watermark_ms(self) -> int | None:
        return self._watermark_ms

    @property
    def lag(self) -> int | None:
        return self._lag

    def wake_at(self) -> float | None:
        return 0.0 if self._fetched or self._failure is not None else None

    def checkpoint_completed(self, position: Any) -> None:
        with self._changed:
            self._acknowledged = position
            self._changed.notify()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(CLOSE_WAIT_SECONDS)

    # On the reader's own thread.

    def _run(self, position: Any) -> None:
        try:
            while not self._is_closed():
                try:
                    self._fetcher.connect(position)
                    self._fetch_all(position)
                    break
                except _Interrupted as interrupted:
                    position = interrupted.position
                    self._pause(self._patience.failed(interrupted.cause))
                except PeerError as error:
                    self._pause(self._patience.failed(error))
                finally:
                    self._fetcher.close()
        except BaseException as error:  # the loop raises it
            self._failure = error
        finally:
            self._context.wake()

    def _fetch_all(self, position: Any) -> None:
        """Until the split ends, or the reader is closed."""
        try:
            while self._wait_for_work():
                self._acknowledge()
                if self._has_room():
                    fetched = self._fetcher.fetch(self._limit)
                    self._patience.succeeded()
                    if fetched is not None:
                        position = fetched.position
                        self._hand_over(fetched)
        except PeerError as error:
            raise _Interrupted(position, error) from error

    def _hand_over(self, fetched: Fetched) -> None:
        with self._changed:
            self._fetched.append(fetched)
            self._ended = fetched.ends_split
        self._context.wake()

    def _wait_for_work(self) -> bool:
        """False: there is nothing more to do."""
        while True:
            with self._changed:
                if self._changed.wait_for(self._has_work, KEEP_ALIVE_SECONDS):
                    return not (self._closed or self._ended)
            self._fetcher.keep_alive()

    def _has_work(self) -> bool:
        return self._closed or self._ended or self._acknowledged is not None or self._has_room()

    def _has_room(self) -> bool:
        return len(self._fetched) < FETCHED_MAX

    def _acknowledge(self) -> None:
        with self._changed:
            position, self._acknowledged = self._acknowledged, None
        if position is not None:
            self._fetcher.acknowledge(position)

    def _pause(self, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._closed, seconds)

    def _is_closed(self) -> bool:
        with self._changed:
            return self._closed


class _Interrupted(Exception):
    """The server was gone behind this position."""

    def __init__(self, position: Any, cause: PeerError) -> None:
        super().__init__(position)
        self.position = position
        self.cause = cause

"""How are records sent to a server without making the loop wait?

A connector writes a `Sender`: it connects, sends, settles, and may block. `SendingWriter` runs it on a thread of its
own behind a bounded queue. A barrier goes into the queue like a batch: what it promises is known when everything in
front of it has been settled, while the stream goes on behind it.

When the server was gone, what was sent since the last settlement is sent again: at least once, or exactly once in
effect where the receiver replaces or drops what it has seen.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from cutwater.batches import Batch
from cutwater.connectors.bases.patience import PATIENCE_SECONDS, Patience
from cutwater.connectors.contract import Sink, SinkWriter, WriterContext
from cutwater.connectors.failures import PeerError
from cutwater.protocol.ids import CheckpointId

#: Rows that wait for the sender's thread.
QUEUED_ROWS_MAX = 20_000
#: Rows that were sent and may have to be sent again.
UNSETTLED_ROWS_MAX = 100_000
CLOSE_WAIT_SECONDS = 1.0
#: Between two signs of life, while there is nothing to send.
KEEP_ALIVE_SECONDS = 5.0


class Sender(ABC):
    """The client of one writer. Every method is called on one thread, the writer's own, and may block."""

    #: False: what was sent since the last barrier is lost with the connection, and too much to be sent again. The
    #: attempt fails, and the next one does it.
    resends: bool = True
    #: True: what `send` was given is acknowledged when it returns, and is never sent again.
    settles_at_once: bool = False

    @abstractmethod
    def connect(self) -> None:
        """Before the first `send`, and again after a `PeerError`."""

    @abstractmethod
    def send(self, batch: Batch) -> None:
        """Sends the records; the server may acknowledge them later.

        `PeerError`: the server is gone, and may come back. Any other exception fails the attempt.
        """

    def settle(self) -> None:
        """Returns when the server has acknowledged everything that was sent; raises like `send`."""

    def prepare(self, checkpoint: CheckpointId) -> Sequence[bytes]:
        """At a barrier, behind `settle`: the committables of what was sent since the last one."""
        return ()

    def keep_alive(self) -> None:
        """Every few seconds while there is nothing to send: a client without a thread of its own answers heartbeats."""

    def close(self) -> None:
        """Releases the connection, if there is one; what isn't prepared is dropped. Also before every `connect`."""


@dataclass(frozen=True, slots=True)
class _BarrierQueued:
    checkpoint: CheckpointId
    promise: Future[Sequence[bytes]]


class SendingWriter(SinkWriter):
    """Writes by means of its sender."""

    def __init__(
        self,
        sink: Sink,
        sender: Sender,
        context: WriterContext,
        *,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        super().__init__(sink)
        self._sender = sender
        self._wake = context.wake
        self._changed = threading.Condition()
        self._queue: deque[Batch | _BarrierQueued] = deque()
        self._queued_rows = 0
        #: Since the last settlement, to be sent again; nothing for a sender that can't resend.
        self._sent: list[Batch] = []
        self._sent_since_barrier = False
        self._closed = False
        self._failure: BaseException | None = None
        name = f'sink "{sink.name}"'
        self._patience = Patience(name, now_seconds=time.monotonic, seconds=patience_seconds)
        self._thread = threading.Thread(target=self._run, name=f"cutwater-{sink.name}", daemon=True)
        self._thread.start()

    # On the loop's thread.

    def has_room(self) -> bool:
        if self._failure is not None:
            raise self._failure
        return self._queued_rows < QUEUED_ROWS_MAX

    def write(self, batch: Batch) -> None:
        with self._changed:
            self._queue.append(batch)
            self._queued_rows += batch.num_rows
            self._changed.notify()

    def prepare(self, checkpoint: CheckpointId) -> Future[Sequence[bytes]]:
        promise: Future[Sequence[bytes]] = Future()
        with self._changed:
            if self._failure is not None:
                raise self._failure
            self._queue.append(_BarrierQueued(checkpoint, promise))
            self._changed.notify()
        return promise

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(CLOSE_WAIT_SECONDS)

    # On the writer's own thread.

    def _run(self) -> None:
        try:
            self._keep_trying(lambda: None, connected=False)
            while (item := self._next()) is not None:
                if isinstance(item, _BarrierQueued):
                    self._keep_promise(item)
                else:
                    self._send(item)
        except _ClosedMeanwhile:
            pass
        except BaseException as error:  # the loop raises it
            self._fail(error)
        finally:
            self._sender.close()

    def _keep_promise(self, barrier: _BarrierQueued) -> None:
        try:
            self._settle()
            prepared = self._sender.prepare(barrier.checkpoint)
        except BaseException as error:
            barrier.promise.set_exception(error)
            raise
        self._sent.clear()
        self._sent_since_barrier = False
        barrier.promise.set_result(prepared)

    def _next(self) -> Batch | _BarrierQueued | None:
        """None: closed."""
        while not self._wait_for_work():
            self._keep_trying(self._sender.keep_alive)
        with self._changed:
            if self._closed:
                return None
            item = self._queue.popleft()
            if not isinstance(item, _BarrierQueued):
                was_full = self._queued_rows >= QUEUED_ROWS_MAX
                self._queued_rows -= item.num_rows
                if was_full and self._queued_rows < QUEUED_ROWS_MAX:
                    self._wake()
            return item

    def _wait_for_work(self) -> bool:
        """False: there was none for a while."""
        with self._changed:
            return self._changed.wait_for(lambda: self._closed or bool(self._queue), KEEP_ALIVE_SECONDS)

    def _send(self, batch: Batch) -> None:
        self._keep_trying(lambda: self._sender.send(batch))
        if self._sender.settles_at_once:
            return
        self._sent_since_barrier = True
        if not self._sender.resends:
            return
        self._sent.append(batch)
        if sum(sent.num_rows for sent in self._sent) > UNSETTLED_ROWS_MAX:
            self._settle()
            self._sent.clear()

    def _settle(self) -> None:
        self._keep_trying(self._sender.settle)

    def _keep_trying(self, action: Callable[[], None], *, connected: bool = True) -> None:
        while True:
            try:
                if not connected:
                    self._connect_again()
                action()
                self._patience.succeeded()
                return
            except PeerError as error:
                if self._sent_since_barrier and not self._sender.resends:
                    raise
                self._pause(self._patience.failed(error))
                connected = False

    def _connect_again(self) -> None:
        self._sender.close()
        self._sender.connect()
        for batch in self._sent:
            self._sender.send(batch)

    def _pause(self, seconds: float) -> None:
        with self._changed:
            if self._changed.wait_for(lambda: self._closed, seconds):
                raise _ClosedMeanwhile

    def _fail(self, error: BaseException) -> None:
        with self._changed:
            self._failure = error
            promises = [item.promise for item in self._queue if isinstance(item, _BarrierQueued)]
            self._queue.clear()
        for promise in promises:
            promise.set_exception(error)
        self._wake()


class _ClosedMeanwhile(Exception):
    """There is nothing more to try for."""

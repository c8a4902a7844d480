"""What runs inside a slot's Spark task, from registration to its end?

The slot's loop has the main thread, so that user code runs where Python expects it. A slot that loses its coordinator
ends its process at once: whatever a user's function is doing, a zombie must not go on.
"""

from __future__ import annotations

import gc
import importlib
import os
import socket
import sys
import traceback
from collections.abc import Callable
from typing import Any, Protocol

import msgspec
import pyarrow.flight as flight

from cutwater.config import TlsFiles
from cutwater.protocol.ids import SlotId
from cutwater.runtime.exhaustion import allow_many_files
from cutwater.runtime.flight.control_frames import LinkTimes
from cutwater.runtime.flight.control_link import ControlLink
from cutwater.runtime.flight.credentials import Credentials, read_credentials
from cutwater.runtime.flight.security import derived_token
from cutwater.runtime.flight.transport import FlightTransport
from cutwater.runtime.messages import FromCoordinator, SlotRegistered
from cutwater.runtime.slot_logs import SlotLogs
from cutwater.runtime.threads import Actor, ActorLoop, MonotonicClock, ThreadBackground
from cutwater.runtime.turn import Turn

BACKGROUND_WORKERS_MAX = 4
#: Connections to sources and sinks that are made at the same time.
OPENING_WORKERS_MAX = 4
EXIT_CODE_ORPHAN = 70
CHANNELS = "channels"
"""What the token between slots is for: it must not open the coordinator's door."""
THREAD_SWITCH_SECONDS = 0.001
"""Python's default of 5 ms is what a network thread waits for the interpreter while user code computes."""
COLLECTOR_THRESHOLDS = (100_000, 50, 50)
"""A batch of rows is thousands of objects that all die together: Python's defaults would look at them again and again,
which took half of the time of a keyed function on typed rows."""


class SlotOrder(msgspec.Struct, frozen=True):
    """What a slot must know to find its coordinator."""

    name: str
    coordinator: str
    token: str
    maker: str = "cutwater.deploy.slot_process:make_slot"
    """Module and function that make the slot; tests bring their own."""
    times: LinkTimes = LinkTimes()
    tls: TlsFiles | None = None
    """Files on the slot's own machine."""
    credentials: Credentials | None = None
    """What the driver has made for the job instead."""


class SlotActor(Actor, Protocol):
    """The part of `Slot` that its process uses."""

    ended: bool
    turn: Turn

    def deliver(self, message: FromCoordinator) -> None: ...

    def post(self, work: Callable[[], None]) -> None: ...


class SlotMaker(Protocol):
    def __call__(
        self,
        slot_id: SlotId,
        *,
        clock: MonotonicClock,
        link: ControlLink,
        transport: FlightTransport,
        background: ThreadBackground,
        opening: ThreadBackground,
        wake: Callable[[], None],
    ) -> SlotActor: ...


encode_order = msgspec.msgpack.Encoder().encode
decode_order = msgspec.msgpack.Decoder(SlotOrder).decode


def run_slot(order_bytes: bytes) -> str:
    """Blocks until the slot ended, and says how: "ended", or "failed: …"."""
    order = decode_order(order_bytes)
    sys.setswitchinterval(THREAD_SWITCH_SECONDS)
    gc.set_threshold(*COLLECTOR_THRESHOLDS)
    allow_many_files()
    try:
        process = _SlotProcess(order)
        try:
            return process.run()
        finally:
            process.close()
    except Exception as error:
        traceback.print_exc()
        return f"failed: {type(error).__name__}: {error}"


class _SlotProcess:
    def __init__(self, order: SlotOrder) -> None:
        clock = MonotonicClock()
        self._order = order
        self._loop = ActorLoop(clock)
        host, _, port = order.coordinator.rpartition(":")
        tls = read_credentials(order.tls) if order.tls is not None else order.credentials
        self._transport = FlightTransport(
            own_address(host.strip("[]"), int(port)),
            self._loop.wake,
            token=derived_token(order.token, CHANNELS),
            tls=tls,
        )
        self._background = ThreadBackground(workers_max=BACKGROUND_WORKERS_MAX, post=self._post)
        self._opening = ThreadBackground(workers_max=OPENING_WORKERS_MAX, post=self._post)
        self._link = ControlLink(
            order.coordinator,
            order.token,
            deliver=self._deliver,
            broken=_end_process,
            tls=tls,
            times=order.times,
        )
        self._slot_id = SlotId(f"{order.name}.{_task_attempt()}")
        self._slot = _maker_of(order.maker)(
            self._slot_id,
            clock=clock,
            link=self._link,
            transport=self._transport,
            background=self._background,
            opening=self._opening,
            wake=self._loop.wake,
        )
        self._logs = SlotLogs(self._link.send, self._slot.turn)
        self._logs.start()

    def run(self) -> str:
        registered = SlotRegistered(
            slot=self._slot_id, address=self._transport.address, host=socket.gethostname(), pid=os.getpid()
        )
        try:
            self._link.register(registered)
        except flight.FlightError as error:
            return f"failed: no coordinator at {self._order.coordinator} ({str(error).partition(chr(10))[0]})"
        self._loop.run(self._slot, self._is_over)
        return "ended"

    def _is_over(self) -> bool:
        self._link.wait_if_out_of_touch()
        return self._slot.ended

    def close(self) -> None:
        self._logs.close()  # what is left of them goes first
        self._link.close()
        self._background.close()
        self._opening.close()
        self._transport.close()

    def _deliver(self, message: FromCoordinator) -> None:
        self._slot.deliver(message)
        self._loop.wake()

    def _post(self, work: Callable[[], None]) -> None:
        self._slot.post(work)
        self._loop.wake()


def make_slot(slot_id: SlotId, **services: Any) -> SlotActor:
    """The slot of production."""
    from cutwater.runtime.slot import Slot
    from cutwater.snapshots.storage import open_storage

    return Slot(slot_id, storage=open_storage, **services)


def _maker_of(name: str) -> SlotMaker:
    module, _, function = name.partition(":")
    maker: SlotMaker = getattr(importlib.import_module(module), function)
    return maker


def _task_attempt() -> int:
    """Unique in the Spark application: a task that Spark tries again is another slot."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return os.getpid() if context is None else context.taskAttemptId()


def own_address(host: str, port: int) -> str:
    """The address of this machine on the way to that one: where the others reach it too."""
    family, kind, _, _, target = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind) as probe:
        probe.connect(target)  # sends nothing
        address: str = probe.getsockname()[0]
    return address


def _end_process(reason: str) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(EXIT_CODE_ORPHAN)

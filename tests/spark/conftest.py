from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import pytest

from cutwater.errors import CutwaterError
from cutwater.protocol.ids import SlotId
from cutwater.runtime.messages import FromSlot, SlotRegistered

from . import fake_slot


class Slots:
    """Both halves of what a launcher wires together, with slots that do nothing."""

    def __init__(self, spark: Any, **order: Any) -> None:
        from cutwater.deploy.shipping import pack
        from cutwater.deploy.slot_process import SlotOrder
        from cutwater.deploy.spark import SparkSlotPool
        from cutwater.runtime.flight.control_server import ControlServer

        self.registered: dict[SlotId, SlotRegistered] = {}
        self.messages: list[tuple[SlotId, FromSlot]] = []
        self.lost: list[tuple[SlotId, str]] = []
        self.failures: list[CutwaterError] = []
        self.server = ControlServer("127.0.0.1", "secret-token", deliver=self._deliver, lost=self._lost)
        options = {
            "coordinator": self.server.address,
            "token": "secret-token",
            "maker": f"{fake_slot.__name__}:make_fake_slot",
            **order,
        }
        self.pool = SparkSlotPool(
            spark,
            job_name="test",
            order=SlotOrder(name="", **options),
            shipment=pack(),
            report=self.failures.append,
        )

    def _deliver(self, slot: SlotId, message: FromSlot) -> None:
        if isinstance(message, SlotRegistered):
            self.pool.slot_registered(slot)
            self.registered[slot] = message
        else:
            self.messages.append((slot, message))

    def _lost(self, slot: SlotId, reason: str) -> None:
        self.pool.slot_lost(slot)
        del self.registered[slot]
        self.lost.append((slot, reason))

    def pids(self) -> list[int]:
        return [message.pid for message in self.registered.values()]

    def stop(self) -> None:
        self.server.close()
        self.pool.stop()


def wait_until(holds: Callable[[], bool], seconds: float = 60.0) -> bool:
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True


def alive(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


MakeSlots = Callable[..., Slots]


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    """An embedded session of three cores."""
    from cutwater.deploy.session import embedded_session

    session = embedded_session(3)
    yield session
    session.stop()


@pytest.fixture
def make_slots(spark: Any) -> Iterator[MakeSlots]:
    made: list[Slots] = []

    def make(**order: Any) -> Slots:
        made.append(Slots(spark, **order))
        return made[-1]

    yield make
    for slots in made:
        slots.stop()

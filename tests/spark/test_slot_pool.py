"""Do slots come up on Spark, come back when they are killed, and go when they are no longer wanted?"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from cutwater.deploy.shipping import pack
from cutwater.deploy.slot_process import SlotOrder
from cutwater.deploy.spark import SparkSlotPool
from cutwater.protocol.ids import AttemptNumber, SlotId
from cutwater.runtime.messages import EndSlot, FirstRecordProcessed, StartAttempt

from .conftest import MakeSlots, alive, wait_until


def test_as_many_slots_as_wanted_register_and_answer(make_slots: MakeSlots) -> None:
    slots = make_slots()
    slots.pool.ensure(3)
    assert wait_until(lambda: len(slots.registered) == 3)
    for slot in list(slots.registered):
        slots.server.send(slot, StartAttempt(AttemptNumber(1)))
    assert wait_until(lambda: len(slots.messages) == 3, seconds=5)
    assert {message for _, message in slots.messages} == {FirstRecordProcessed(AttemptNumber(1))}
    assert len(set(slots.pids())) == 3


def test_a_killed_slot_is_noticed_at_once_and_replaced(
    make_slots: MakeSlots, capfd: pytest.CaptureFixture[str]
) -> None:
    slots = make_slots()
    slots.pool.ensure(2)
    assert wait_until(lambda: len(slots.registered) == 2)
    capfd.readouterr()
    for number in range(3):
        survivors = set(slots.registered)
        victim = next(iter(slots.registered))
        os.kill(slots.registered[victim].pid, signal.SIGKILL)
        assert wait_until(lambda count=number + 1: len(slots.lost) == count)
        assert wait_until(lambda: len(slots.registered) == 2)
        assert slots.lost[-1] == (victim, "its process is gone")  # not: it was silent for too long
        assert survivors - {victim} <= set(slots.registered)
    assert capfd.readouterr() == ("", "")


def test_stopping_leaves_no_process_of_a_slot(make_slots: MakeSlots) -> None:
    slots = make_slots()
    slots.pool.ensure(2)
    assert wait_until(lambda: len(slots.registered) == 2)
    pids = slots.pids()
    slots.stop()
    assert wait_until(lambda: not any(map(alive, pids)))


def test_a_slot_that_is_told_to_end_is_not_replaced_when_fewer_are_wanted(make_slots: MakeSlots) -> None:
    slots = make_slots()
    slots.pool.ensure(2)
    assert wait_until(lambda: len(slots.registered) == 2)
    slots.pool.ensure(1)
    first = next(iter(slots.registered))
    slots.server.send(first, EndSlot(job_is_over=True))
    assert wait_until(lambda: len(slots.lost) == 1)
    assert not wait_until(lambda: len(slots.registered) == 2, seconds=1)
    slots.pool.ensure(2)
    assert wait_until(lambda: len(slots.registered) == 2)


def test_missing_cores_are_named(make_slots: MakeSlots) -> None:
    slots = make_slots()
    slots.pool.ensure(4)
    assert wait_until(lambda: len(slots.registered) == 3)
    assert slots.pool.shortage() == "3 of 4 slots; Spark has 3 cores for all its tasks, each slot needs 1"


def test_a_slot_that_cannot_be_made_is_reported(make_slots: MakeSlots) -> None:
    slots = make_slots(maker="no_such_module:Slot")
    slots.pool.ensure(1)
    assert wait_until(lambda: len(slots.failures) > 0)
    assert "No module named 'no_such_module'" in str(slots.failures[0])
    assert "No module named 'no_such_module'" in slots.pool.shortage()


def test_stopping_cancels_slots_that_wait_for_a_core(make_slots: MakeSlots) -> None:
    slots = make_slots()
    slots.pool.ensure(5)
    assert wait_until(lambda: len(slots.registered) == 3)
    began = time.monotonic()
    slots.stop()
    assert time.monotonic() - began < 8


class StubbornJobs:
    """Spark jobs that begin when they are submitted, and end when the test says so."""

    def __init__(self) -> None:
        self.running: list[str] = []
        self.cancelled: list[str] = []
        self.ends = threading.Semaphore(0)

    def prepare(self, task: Any) -> Callable[[], str]:
        return self._run

    def enter(self, start: str, text: str) -> None:
        self.running.append(start)

    def cancel(self, start: str) -> None:
        self.cancelled.append(start)
        self.ends.release()

    def release(self) -> None: ...

    def alive(self) -> bool:
        return True

    def _run(self) -> str:
        self.ends.acquire()
        return "ended"


@pytest.fixture
def stubborn(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[SparkSlotPool, StubbornJobs]]:
    """A pool with one slot that was lost, and that hangs or is dead; `HUNG_SECONDS` are over before anyone knows."""
    jobs = StubbornJobs()
    monkeypatch.setattr("cutwater.deploy.spark._jobs_of", lambda spark, group: jobs)
    order = SlotOrder(name="", coordinator="127.0.0.1:1", token="secret-token")
    pool = SparkSlotPool(None, job_name="test", order=order, shipment=pack({}))
    pool.ensure(1)
    assert wait_until(lambda: len(jobs.running) == 1)
    pool.slot_registered(SlotId("slot-0.7"))
    yield pool, jobs
    jobs.ends.release(9)
    pool.stop()


def test_a_slot_that_hangs_is_cancelled(stubborn: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pool, jobs = stubborn
    monkeypatch.setattr("cutwater.deploy.spark.HUNG_SECONDS", 0.0)
    pool.slot_lost(SlotId("slot-0.7"))
    assert wait_until(lambda: jobs.running == ["slot-0, start 1", "slot-0, start 2"])
    assert jobs.cancelled == ["slot-0, start 1"]


def test_a_replacement_that_takes_long_to_start_is_not_cancelled(
    stubborn: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool, jobs = stubborn
    timers: list[Callable[[], None]] = []
    monkeypatch.setattr("cutwater.deploy.spark.threading.Timer", lambda _, call, args: held(timers, call, args))
    pool.slot_lost(SlotId("slot-0.7"))
    jobs.ends.release()  # its process is dead, and Spark has noticed
    assert wait_until(lambda: len(jobs.running) == 2)
    for time_is_up in timers:
        time_is_up()
    assert (len(timers), jobs.cancelled) == (1, [])


def test_the_slots_after_a_rescaling_are_not_cancelled_for_those_before_it(
    stubborn: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool, jobs = stubborn
    timers: list[Callable[[], None]] = []
    monkeypatch.setattr("cutwater.deploy.spark.threading.Timer", lambda _, call, args: held(timers, call, args))
    pool.ensure(0)
    pool.slot_lost(SlotId("slot-0.7"))
    jobs.ends.release()
    assert wait_until(lambda: not pool._threads)
    pool.ensure(1)
    assert wait_until(lambda: len(jobs.running) == 2)
    for time_is_up in timers:
        time_is_up()
    assert (len(timers), jobs.cancelled) == (1, [])


def held(timers: list[Callable[[], None]], call: Callable[..., None], args: tuple[Any, ...]) -> SimpleNamespace:
    return SimpleNamespace(start=lambda: timers.append(partial(call, *args)))

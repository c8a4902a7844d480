"""Do coordinator and slot hear each other, and notice at once when the other is gone?"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow.flight as flight
import pytest

from cutwater.protocol.ids import AttemptNumber, SlotId
from cutwater.runtime.flight.control_frames import LinkTimes
from cutwater.runtime.flight.control_link import ControlLink
from cutwater.runtime.flight.control_server import ControlServer
from cutwater.runtime.messages import EndSlot, FirstRecordProcessed, SlotRegistered, StartAttempt

from .waiting import wait_until

MakeServer = Callable[..., tuple[ControlServer, list[Any]]]
SLOT = SlotId("slot-0")
REGISTERED = SlotRegistered(slot=SLOT, address="127.0.0.1:1", host="here", pid=1)


@pytest.fixture
def make_server() -> Iterator[MakeServer]:
    """Servers together with the list of what they reported."""
    servers: list[ControlServer] = []

    def make(times: LinkTimes | None = None) -> tuple[ControlServer, list[Any]]:
        heard: list[Any] = []
        server = ControlServer(
            "127.0.0.1",
            "secret",
            deliver=lambda slot, message: heard.append((slot, message)),
            lost=lambda slot, reason: heard.append((slot, reason)),
            times=times,
        )
        servers.append(server)
        return server, heard

    yield make
    for server in servers:
        server.close()


def _link(
    server: ControlServer, token: str = "secret", times: LinkTimes | None = None
) -> tuple[ControlLink, list[Any]]:
    heard: list[Any] = []
    link = ControlLink(server.address, token, deliver=heard.append, broken=heard.append, times=times)
    link.register(REGISTERED)
    return link, heard


def test_messages_arrive_in_order_both_ways(make_server: MakeServer) -> None:
    server, slot_said = make_server()
    link, coordinator_said = _link(server)
    numbers = [AttemptNumber(number) for number in range(100)]
    for number in numbers:
        link.send(FirstRecordProcessed(number))
    assert wait_until(lambda: len(slot_said) == 101)
    for number in numbers:
        server.send(SLOT, StartAttempt(number))
    assert wait_until(lambda: len(coordinator_said) == 100)
    assert slot_said == [(SLOT, REGISTERED), *((SLOT, FirstRecordProcessed(number)) for number in numbers)]
    assert coordinator_said == [StartAttempt(number) for number in numbers]
    link.close()


def test_a_slot_that_leaves_is_lost_after_its_last_message(make_server: MakeServer) -> None:
    server, slot_said = make_server()
    link, coordinator_said = _link(server)
    link.send(FirstRecordProcessed(AttemptNumber(1)))
    link.close()
    assert wait_until(lambda: len(slot_said) == 3)
    assert slot_said[1:] == [(SLOT, FirstRecordProcessed(AttemptNumber(1))), (SLOT, slot_said[2][1])]
    assert coordinator_said == []
    server.send(SLOT, EndSlot(job_is_over=True))  # to nobody


def test_a_wrong_token_is_refused(make_server: MakeServer) -> None:
    server, slot_said = make_server()
    heard: list[Any] = []
    link = ControlLink(server.address, "guess", deliver=heard.append, broken=heard.append)
    try:
        link.register(REGISTERED)
    except flight.FlightUnauthenticatedError as error:
        heard.append(f"the coordinator refused this slot: {error}")
    assert wait_until(lambda: len(heard) == 1)
    assert "refused" in heard[0]
    assert slot_said == []


def test_hanging_up_ends_the_slot_and_is_no_loss(make_server: MakeServer) -> None:
    server, slot_said = make_server()
    _, coordinator_said = _link(server)
    assert wait_until(lambda: server.connected() == [SLOT])
    server.hang_up(SLOT)
    assert wait_until(lambda: coordinator_said == ["the coordinator hung up"])
    assert wait_until(lambda: not _threads("cutwater-line"))
    assert (slot_said, server.connected()) == ([(SLOT, REGISTERED)], [])


def test_a_loop_that_slept_through_the_timeout_waits_for_a_new_sign_of_life(make_server: MakeServer) -> None:
    times = LinkTimes(sign_of_life_seconds=0.05, silence_seconds_max=30.0)
    link, _ = _link(make_server(times)[0], times=times)
    began = link._heard_at = time.monotonic() - 60.0  # stopped for a minute
    link.wait_if_out_of_touch()
    assert link._heard_at > began + 60.0
    link.close()


def test_a_loop_that_was_given_up_while_it_slept_does_not_go_on(make_server: MakeServer) -> None:
    times = LinkTimes(sign_of_life_seconds=0.05, silence_seconds_max=30.0)
    server, _ = make_server(times)
    link, coordinator_said = _link(server, times=times)
    assert wait_until(lambda: server.connected() == [SLOT])
    server.hang_up(SLOT)
    link._heard_at = time.monotonic() - 60.0
    link.wait_if_out_of_touch()
    assert coordinator_said == ["the coordinator hung up"]  # in a slot's process this ends it


def test_closing_the_server_ends_its_slots(make_server: MakeServer) -> None:
    server, _ = make_server()
    _, coordinator_said = _link(server)
    assert wait_until(lambda: server.connected() == [SLOT])
    began = time.monotonic()
    server.close()
    assert coordinator_said == ["the coordinator hung up"]
    assert time.monotonic() - began < 1


def test_a_link_that_is_only_quiet_is_alive(make_server: MakeServer) -> None:
    times = LinkTimes(sign_of_life_seconds=0.05, silence_seconds_max=0.5)
    server, slot_said = make_server(times)
    _, coordinator_said = _link(server, times=times)
    time.sleep(1)
    assert (slot_said, coordinator_said) == ([(SLOT, REGISTERED)], [])


def _slot_process(address: str, token: str, silence_seconds_max: float) -> None:
    over = threading.Event()
    times = LinkTimes(sign_of_life_seconds=0.05, silence_seconds_max=silence_seconds_max)
    link = ControlLink(address, token, deliver=lambda message: None, broken=lambda reason: over.set(), times=times)
    link.register(SlotRegistered(slot=SLOT, address="", host="", pid=os.getpid()))
    over.wait()
    os._exit(3)


def _start_slot(server: ControlServer, heard: list[Any]) -> Any:
    process = multiprocessing.get_context("spawn").Process(
        target=_slot_process, args=(server.address, "secret", 30.0), daemon=True
    )
    process.start()
    assert wait_until(lambda: len(heard) == 1)
    return process


def test_a_killed_slot_is_lost_at_once(make_server: MakeServer) -> None:
    server, slot_said = make_server()
    process = _start_slot(server, slot_said)
    began = time.monotonic()
    process.kill()
    assert wait_until(lambda: len(slot_said) == 2, seconds=1)
    assert time.monotonic() - began < 0.5
    assert slot_said[1] == (SLOT, "its process is gone")


def test_a_slot_that_hangs_is_lost_after_the_silence(make_server: MakeServer) -> None:
    server, slot_said = make_server(LinkTimes(sign_of_life_seconds=0.05, silence_seconds_max=0.5))
    process = _start_slot(server, slot_said)
    os.kill(process.pid, signal.SIGSTOP)
    assert wait_until(lambda: len(slot_said) == 2, seconds=3)
    assert slot_said[1][1].startswith("no sign of life for ")
    os.kill(process.pid, signal.SIGCONT)
    process.join(2)
    assert process.exitcode == 3  # it woke up to a line that was hung up


def _server_process(pipe: Any) -> None:
    server = ControlServer("127.0.0.1", "secret", deliver=lambda *_: None, lost=lambda *_: None)
    pipe.send(server.address)
    threading.Event().wait()


def test_a_killed_coordinator_breaks_the_link_at_once() -> None:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_server_process, args=(there,), daemon=True)
    process.start()
    heard: list[Any] = []
    link = ControlLink(here.recv(), "secret", deliver=heard.append, broken=heard.append)
    link.register(REGISTERED)
    time.sleep(0.1)
    process.kill()
    assert wait_until(lambda: len(heard) == 1, seconds=0.5)


def _threads(prefix: str) -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith(prefix)]

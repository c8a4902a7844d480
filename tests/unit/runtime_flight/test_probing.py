"""Is a slot whose interpreter is held by a call told from one that is stopped, gone, or merely quiet?"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cutwater.runtime.flight import links
from cutwater.runtime.flight.probing import interpreter_is_held
from cutwater.runtime.flight.security import connect

from .conftest import MakeTransport
from .test_links import ATTEMPT, Ends
from .waiting import wait_until

SLOT = """
import re, sys, threading
from cutwater.runtime.flight.transport import FlightTransport
transport = FlightTransport("127.0.0.1", lambda: None)
print(transport.address, flush=True)
sys.stdin.readline()
print("holds", flush=True)
re.match(r"(a+)+$", "a" * 40 + "b")  # would take hours, and never lets go of the interpreter
"""


@pytest.fixture
def process() -> Iterator[subprocess.Popen[str]]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", SLOT]
    with subprocess.Popen(command, stdin=-1, stdout=-1, text=True, env=environment) as started:
        yield started
        started.kill()


def address_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def hold_interpreter(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    assert process.stdout.readline() == "holds\n"


def states_of_threads(process: subprocess.Popen[str]) -> set[str]:
    stats = Path(f"/proc/{process.pid}/task").glob("*/stat")
    return {stat.read_text().rpartition(") ")[2][0] for stat in stats}


def test_an_interpreter_that_a_call_holds_is_recognised(process: subprocess.Popen[str]) -> None:
    address = address_of(process)
    assert not interpreter_is_held(connect(address, None))  # it waits for us, and answers
    hold_interpreter(process)
    assert wait_until(lambda: interpreter_is_held(connect(address, None)), seconds=20)


def test_a_process_that_is_stopped_is_not_excused(process: subprocess.Popen[str]) -> None:
    address = address_of(process)
    process.send_signal(signal.SIGSTOP)
    assert wait_until(lambda: states_of_threads(process) == {"T"})
    assert not interpreter_is_held(connect(address, None))


def test_a_process_that_is_gone_is_not_excused(process: subprocess.Popen[str]) -> None:
    address = address_of(process)
    process.kill()
    process.wait()
    assert not interpreter_is_held(connect(address, None))


def test_a_connection_that_hangs_is_not_taken_for_a_held_interpreter(
    make_transport: MakeTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "ANSWER_SECONDS", 0.05)
    sending = make_transport()
    ends = Ends(sending, make_transport())
    (link,) = sending.connections(ATTEMPT)
    ends.network.hang()
    heard = link.signs_of_life()
    link.ping()
    assert not wait_until(lambda: link.signs_of_life() != heard, seconds=5)
    ends.network.close()

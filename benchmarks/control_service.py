"""What does a job pay for being watched?

    python -m benchmarks.control_service [--seconds 2] [--rounds 40]

One job: watched by nobody, by one open page, by nobody again, and by 200 clients that poll once a second, for a moment
each, round by round. Ratios are taken within a round, because the speed of a machine drifts: how far the two moments
without a watcher differ shows by how much. The clients are processes of this machine, stopped while it is not their
turn, so what they cost is in the rate, too. What service and clients take for each second that the slots take hardly
feels the machine's other work. Then: what one look at the status costs when there are 4, 40 and 400 tasks.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from statistics import mean, median, stdev
from typing import Any
from urllib.parse import urlsplit

import msgspec
import psutil

import cutwater as cw
from cutwater.diagnosis.doctor import diagnose
from cutwater.protocol.lifecycle import JobState
from cutwater.serving.registry import registrations
from cutwater.status import (
    ChainStatus,
    CheckpointStatus,
    GraphStatus,
    JobStatus,
    OperatorActivity,
    OperatorStatus,
    TaskStatus,
)
from cutwater.telemetry.prometheus import exposition

JOB = "benchmark-control"
POLLERS = 200
WATCHERS = ("nobody", "one open page", "nobody again", f"{POLLERS} pollers")
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Figures:
    per_second: float
    #: Processor time for each second of the slots'.
    service_share: float
    clients_share: float
    requests: int


def key_of(index: int) -> int:
    return index * 2_654_435_761 % 10_000


@contextmanager
def _running_job(spark: Any) -> Iterator[Any]:
    env = cw.Environment(spark=spark, parallelism=2, checkpoints=cw.Checkpoints(every="1s"))
    numbers = env.from_source(cw.sources.generator(key_of, splits=2), uid="keys")
    numbers.key_by(lambda key: key).count(uid="count").sink_to(cw.sinks.discard(), uid="end")
    job = env.submit("benchmark control", job_id=JOB)
    while job.status().running_seconds < 5:
        time.sleep(0.1)
    yield job
    job.cancel()
    job.wait()


def measure(job: Any, clients: Nobody, seconds: float) -> Figures:
    clients.go_on()
    before, began, clients_before = _now(job), clients.answers(), clients.cpu_seconds()
    time.sleep(seconds)
    after, ended, clients_after = _now(job), clients.answers(), clients.cpu_seconds()
    clients.stop()
    slots_seconds = after.slots_seconds - before.slots_seconds
    return Figures(
        (after.records - before.records) / (after.at_seconds - before.at_seconds),
        (after.service_seconds - before.service_seconds) / slots_seconds,
        (clients_after - clients_before) / slots_seconds,
        ended - began,
    )


@dataclass(frozen=True, slots=True)
class _Counts:
    at_seconds: float
    records: int
    service_seconds: float
    slots_seconds: float


def _now(job: Any) -> _Counts:
    """Right after slots have reported: their counts are those of this moment."""
    status = before = job.status()
    while _read(status) == _read(before):
        time.sleep(0.005)
        status = job.status()
    slots_seconds = sum(_cpu_seconds(slot.pid) for slot in status.slots)
    return _Counts(status.as_of_ms / 1000, _read(status), _service_seconds(), slots_seconds)


def _read(status: JobStatus) -> int:
    return sum(task.operators[0].records_out for task in status.tasks if task.task.startswith("keys["))


def _service_seconds() -> float:
    names = {thread.name: thread.native_id for thread in threading.enumerate()}
    native_id = names.get(f"cutwater-control-{JOB}")
    return 0.0 if native_id is None else _thread_seconds(native_id)


def _thread_seconds(native_id: int) -> float:
    try:
        with open(f"/proc/self/task/{native_id}/stat", encoding="ascii") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND


def _cpu_seconds(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


class Nobody:
    """Watches."""

    def go_on(self) -> None: ...
    def stop(self) -> None: ...

    def answers(self) -> int:
        return 0

    def cpu_seconds(self) -> float:
        return 0.0


class Clients(Nobody):
    """In a process of their own."""

    def __init__(self, what: str) -> None:
        known = next(known for known, lives in registrations() if lives and known.job_id == JOB)
        command = [sys.executable, "-m", "benchmarks.control_service", "--be", what, "--address", known.address]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self._say(known.token)  # in no list of processes
        assert self._hear() == "ready"
        self.stop()

    def go_on(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def answers(self) -> int:
        """How many answers or events they have had so far."""
        self._say("")
        return int(self._hear())

    def cpu_seconds(self) -> float:
        return _cpu_seconds(self._process.pid)

    def end(self) -> None:
        self._process.kill()
        self._process.wait()

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        print(line, file=self._process.stdin)

    def _hear(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


async def _client(address: str, token: str, path: str, pause_seconds: float | None, counts: list[int]) -> None:
    """Until the service is gone. It closes connections that were not used for some seconds."""
    with suppress(ConnectionRefusedError):
        while True:
            await _connected(address, token, path, pause_seconds, counts)


async def _connected(address: str, token: str, path: str, pause_seconds: float | None, counts: list[int]) -> None:
    parts = urlsplit(address)
    ask = f"GET {path} HTTP/1.1\r\nhost: here\r\nauthorization: Bearer {token}\r\n\r\n".encode()
    try:
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port, limit=1 << 24)
        writer.write(ask)
        while pause_seconds is None:
            if (await reader.readline()).startswith(b"event:"):
                counts.append(1)
            elif reader.at_eof():
                return
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            await reader.readexactly(length)
            counts.append(1)
            await asyncio.sleep(pause_seconds)
            writer.write(ask)
    except ConnectionRefusedError:
        raise
    except (OSError, EOFError):
        return


async def _be_clients(what: str, address: str) -> None:
    """Says "ready" when all had an answer, and then how many answers there were, whenever it gets a line."""
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    token = (await lines.readline()).decode().strip()
    counts: list[int] = []
    clients = 1 if what == "events" else POLLERS
    running = []
    for _ in range(clients):
        path, pause = (f"/jobs/{JOB}/events", None) if what == "events" else (f"/jobs/{JOB}", 1.0)
        running.append(asyncio.create_task(_client(address, token, path, pause, counts)))
        await asyncio.sleep(1.0 / clients)
    while len(counts) < clients:
        await asyncio.sleep(0.1)
    print("ready", flush=True)
    while await lines.readline():
        print(len(counts), flush=True)


def made_up(tasks: int) -> JobStatus:
    """A status with so many tasks of four operators each, and a hundred checkpoints."""
    names = ("read", "parse", "map(f)", "write")
    operators = tuple(OperatorStatus(name, name, "operator", "job.py:1") for name in names)
    activity = tuple(OperatorActivity(name, 10**9, 10**9, 1234.5, 1e5, 1e5, 0.25) for name in names)
    one = TaskStatus("read[0]", "slot-1", 10**9, 10**9, 1.5, 2.5, 3.5, 0.1, 5, 1_700_000_000_000, operators=activity)
    checkpoint = CheckpointStatus(1, "checkpoint", 1, "completed", 0.04, 1_700_000_000_000, 10**6, 10**5)
    return JobStatus(
        JOB,
        JOB,
        JobState.RUNNING,
        1,
        graph=GraphStatus((ChainStatus("read", "read", tasks, operators),)),
        tasks=(one,) * tasks,
        checkpoints=(checkpoint,) * 100,
        running_seconds=60.0,
    )


def print_growth() -> None:
    print("\none look at the status, by tasks")
    print(f"{'tasks':>8} {'size':>10} {'encode':>10} {'/metrics':>10} {'doctor':>10}")
    for tasks in (4, 40, 400):
        status = made_up(tasks)
        works: list[Callable[[], Any]] = [
            lambda status=status: msgspec.json.encode(status),  # type: ignore[misc]
            lambda status=status: exposition(status),  # type: ignore[misc]
            lambda status=status: diagnose(status),  # type: ignore[misc]
        ]
        encoded, exposed, diagnosed = (_milliseconds(work) for work in works)
        size = len(msgspec.json.encode(status)) / 1024
        print(f"{tasks:>8} {size:>7.0f} KB {encoded:>7.2f} ms {exposed:>7.2f} ms {diagnosed:>7.2f} ms")


def _beside_unwatched(rounds: list[dict[str, Figures]], watcher: str) -> str:
    """The median rate, and the mean of its ratios to what the same round had without a watcher."""

    def ratio(one: dict[str, Figures]) -> float:
        return one[watcher].per_second / mean(
            found.per_second for who, found in one.items() if who.startswith("nobody")
        )

    ratios = [ratio(one) for one in rounds]
    error = stdev(ratios) / len(ratios) ** 0.5
    return f"{median(one[watcher].per_second for one in rounds):,.0f} ({mean(ratios):.1%} ± {error:.1%})"


def _milliseconds(work: Callable[[], Any]) -> float:
    taken = []
    for _ in range(20):
        begun = time.thread_time()
        work()
        taken.append(time.thread_time() - begun)
    return median(taken) * 1000


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.control_service", description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--be", choices=("events", "polls"), help=argparse.SUPPRESS)
    parser.add_argument("--address", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.be is not None:
        asyncio.run(_be_clients(options.be, options.address))
        return
    from cutwater.deploy.session import embedded_session

    spark = embedded_session(4)
    with _running_job(spark) as job:
        page, pollers = Clients("events"), Clients("polls")
        watchers = dict(zip(WATCHERS, (Nobody(), page, Nobody(), pollers), strict=True))
        rounds = [
            {name: measure(job, clients, options.seconds) for name, clients in watchers.items()}
            for _ in range(options.rounds)
        ]
        page.end()
        pollers.end()
    heads = ("records/s", "service", "clients", "answers")
    print(f"{'':<14}{heads[0]:>28}" + "".join(f"{head:>10}" for head in heads[1:]))
    for watcher in WATCHERS:
        figures = [one[watcher] for one in rounds]
        columns = (
            f"{median(one.service_share for one in figures):.2%}",
            f"{median(one.clients_share for one in figures):.2%}",
            f"{median(one.requests for one in figures):,.0f}",
        )
        print(f"{watcher:<14}{_beside_unwatched(rounds, watcher):>28}" + "".join(f"{each:>10}" for each in columns))
    print_growth()
    spark.stop()


if __name__ == "__main__":
    main()

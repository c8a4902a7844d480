"""What do all servers have in common?

A folder, ports, one or more processes, and an end that leaves nothing behind. A test may kill the server and start it
again on the same ports and data, or pause it so that it hangs.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Self

from cutwater.errors import OperationsError
from servers import guard
from servers.packages import Package

HOST = "127.0.0.1"
#: Below the ports that Linux gives to clients: otherwise a client could get the port of a server that is being
#: restarted, or, when it connects to that port, even be connected to itself.
PORTS = range(12_000, 32_000)
LOG_LINES_IN_ERRORS = 30


@dataclass(frozen=True, slots=True)
class Command:
    """One process of a server."""

    arguments: Sequence[str | Path]
    environment: Mapping[str, str] = field(default_factory=dict)
    #: For servers that refuse to run as root; without effect for anyone else.
    user: str | None = None


class ServerFailed(OperationsError):
    """A server did not start, or is gone."""


class Server(ABC):
    """A server with its own folder and ports.

    `start` and `restart` return when it answers. All methods block, and belong to one thread.
    """

    name: ClassVar[str]
    #: What must be installed.
    packages: ClassVar[tuple[Package, ...]]
    ready_within_seconds: ClassVar[float] = 180.0
    #: True: it is only installed and tested when it is asked for by its name.
    opt_in: ClassVar[bool] = False

    def __init__(self) -> None:
        self.port = free_port()
        self._folder: Path | None = None
        self._guard: subprocess.Popen[str] | None = None
        self._running: list[subprocess.Popen[bytes]] = []
        self._log_begins_at = 0

    # ------------------------------------------------------------------------------------------ for each server to say

    @abstractmethod
    def commands(self) -> Sequence[Command]:
        """The processes to start; the last one is the server itself."""

    def prepare(self) -> None:
        """Makes the data folder and the configuration, before the first start."""

    def is_ready(self) -> bool:
        """Does the server answer? Asked again and again; an `OSError` means no."""
        socket.create_connection((HOST, self.port), timeout=1).close()
        return True

    @property
    @abstractmethod
    def how_to_connect(self) -> str:
        """One line for people: the address, and the credentials if there are any."""

    # --------------------------------------------------------------------------------------------------- from its users

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def folder(self) -> Path:
        assert self._folder is not None, f"{self.name} was not started"
        return self._folder

    @property
    def log(self) -> Path:
        return self.folder / "log.txt"

    @property
    def is_running(self) -> bool:
        return bool(self._running) and self._running[-1].poll() is None

    @property
    def processes(self) -> set[int]:
        """The ids of all processes of this server that run now."""
        return guard.families(process.pid for process in self._running)

    def start(self) -> None:
        """Starts the server and waits until it answers; with a fresh folder the first time."""
        assert not self.is_running, f"{self.name} is running"
        try:
            if self._folder is None:
                self._make_folder()
                self.prepare()
            for command in self.commands():
                self._launch(command)
            self.wait_until_ready()
        except BaseException:
            self.stop()
            raise

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + self.ready_within_seconds
        while not self._answers():
            if not self.is_running:
                raise self._failed(f"{self.name} ended with code {self._running[-1].poll()} while it was starting")
            if time.monotonic() > deadline:
                raise self._failed(f"{self.name} did not answer within {self.ready_within_seconds:.0f} s")
            time.sleep(0.02)

    def kill(self) -> None:
        """`kill -9` of all its processes; returns when they are gone. The data stays."""
        guard.kill_families(process.pid for process in self._running)
        for process in self._running:
            process.wait()
        self._running = []
        self._tell_guard()

    def restart(self) -> None:
        """Starts it again on the same ports and data, after a kill if it still runs."""
        self.kill()
        self.start()

    def pause(self) -> None:
        """It hangs: connections stay open, nothing answers, until `resume`."""
        guard.signal_all(self.processes, signal.SIGSTOP)

    def resume(self) -> None:
        guard.signal_all(self.processes, signal.SIGCONT)

    def stop(self) -> None:
        """Ends it for good: no process and no file is left. Its data goes, too, so a kill is good enough."""
        self.kill()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None
        if self._guard is not None:
            self._guard.communicate()
            self._guard = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # ----------------------------------------------------------------------------------------------- for the subclasses

    def run_once(self, command: Command, *, timeout_seconds: float = 120.0) -> None:
        """A program that makes the data folder, say. Its output goes to the log."""
        process = self._launch(command)
        try:
            code = process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            raise self._failed(f"{self.name} could not be set up within {timeout_seconds:.0f} s") from None
        self._running.remove(process)
        if code != 0:
            raise self._failed(
                f"{self.name} could not be set up: {Path(command.arguments[0]).name} ended with code {code}"
            )

    def log_of_this_start(self) -> str:
        return self.log.read_text(errors="replace")[self._log_begins_at :]

    # -------------------------------------------------------------------------------------------------------------- own

    def _make_folder(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix=f"cutwater-{self.name}-"))
        # Servers that run as a user of their own must be able to enter.
        self._folder.chmod(0o755)
        self._guard = subprocess.Popen(
            [sys.executable, "-I", "-S", guard.__file__, str(self._folder)],
            stdin=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def _tell_guard(self) -> None:
        if self._guard is not None and self._guard.stdin is not None:
            print(*(process.pid for process in self._running), file=self._guard.stdin, flush=True)

    def _launch(self, command: Command) -> subprocess.Popen[bytes]:
        self._log_begins_at = self.log.stat().st_size if self.log.exists() else 0
        user = command.user if os.geteuid() == 0 else None
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                [str(argument) for argument in command.arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env={**os.environ, **command.environment},
                user=user,
                group=user,
                extra_groups=None if user is None else [],
                start_new_session=True,
            )
        self._running.append(process)
        self._tell_guard()
        return process

    def _answers(self) -> bool:
        try:
            return self.is_ready()
        except OSError:
            return False

    def _failed(self, fact: str) -> ServerFailed:
        lines = self.log.read_text(errors="replace").splitlines()[-LOG_LINES_IN_ERRORS:]
        return ServerFailed(fact, detail="\n".join(["the end of its log:", *lines]))


def free_port() -> int:
    """A port that no server on this machine listens on; drawn, so that two test runs rarely choose the same."""
    for port in random.sample(PORTS, 100):
        with socket.socket() as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return port
    raise ServerFailed("no free port", detail=f"100 ports from {PORTS.start} to {PORTS.stop} were in use")


def belongs_to(user: str, path: Path) -> None:
    """Gives a file or folder to the user that a server runs as, when we are root and may."""
    if os.geteuid() == 0:
        shutil.chown(path, user, user)

"""How does a job go on when the shell that started it is closed?

Its driver becomes a process of its own: in another session, without a terminal, with its output in a file beside the
registrations. The command that started it waits until the job is registered, or the process has ended.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from cutwater.errors import ConfigurationError
from cutwater.serving.registry import LOG_VARIABLE, REMEMBERED_SECONDS, Registration, private_folder, registrations

TAIL_LINES = 20
_LOOK_SECONDS = 0.1
_TAIL_BYTES_MAX = 64 * 1024


@dataclass(frozen=True, slots=True)
class Detached:
    """A driver in the background."""

    process: subprocess.Popen[bytes]
    log: Path


def run_detached(arguments: list[str], title: str, options: Mapping[str, Any], *, as_json: bool) -> None:
    """Starts `cutwater run` with these arguments in the background; exits as it did if it ended at once."""
    if "control" in options and options["control"] is None:
        raise ConfigurationError(
            "a detached job needs its control service",
            detail="nothing else could find or end it",
            hint="leave out --set control=none",
        )
    detached = _start(arguments, title)
    try:
        found = _registered(detached)
    except KeyboardInterrupt:
        _say(f"process {detached.process.pid} goes on; its output is in {detached.log}")
        raise
    if found is None:
        _tell_end(detached)
        return
    _tell(found, detached, as_json=as_json)


def tail(path: Path, lines: int) -> list[str]:
    """The last lines of a file, which may be long."""
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - max(_TAIL_BYTES_MAX, lines * 500)))
        return file.read().decode("utf-8", "replace").splitlines()[-lines:]


def _start(arguments: list[str], title: str) -> Detached:
    folder = private_folder()
    _forget_old_logs(folder)
    log = folder / f"{title[:100]}-{secrets.token_hex(6)}.log"
    # Not the folder of the shell: a module there must not take the place of a package.
    command = [sys.executable, "-u", "-P", "-m", "cutwater", "run", *arguments]
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=descriptor,
            stderr=descriptor,
            env={**os.environ, LOG_VARIABLE: str(log)},
            start_new_session=True,
        )
    finally:
        os.close(descriptor)
    return Detached(process, log)


def _registered(detached: Detached) -> Registration | None:
    """The job of this process; None: it has ended before there was one."""
    with _spinner(f"starting; the output goes to {detached.log}"):
        while True:
            for each, lives in registrations():
                if lives and each.pid == detached.process.pid and each.log == str(detached.log):
                    return each
            if detached.process.poll() is not None:
                return None
            time.sleep(_LOOK_SECONDS)


def _tell(found: Registration, detached: Detached, *, as_json: bool) -> None:
    if as_json:
        import msgspec

        row = {"job_id": found.job_id, "name": found.name, "address": found.address, "pid": found.pid}
        typer.echo(msgspec.json.format(msgspec.json.encode({**row, "log": str(detached.log)})).decode())
        return
    typer.echo(f"{found.job_id}  process {found.pid}, output in {detached.log}")


def _tell_end(detached: Detached) -> None:
    code = detached.process.returncode
    for line in tail(detached.log, TAIL_LINES):
        typer.echo(line, err=True)
    if code == 0:
        _say(f"the script has ended; its output is in {detached.log}")
        return
    _say(f"the script has ended with {code} before a job ran; its output is in {detached.log}")
    raise typer.Exit(code if code > 0 else 128 - code)


def _forget_old_logs(folder: Path) -> None:
    """A job that lives keeps its own, however long it has said nothing."""
    in_use = {each.log for each, lives in registrations() if lives}
    oldest = time.time() - REMEMBERED_SECONDS
    for path in folder.glob("*.log"):
        with contextlib.suppress(OSError):
            if str(path) not in in_use and path.stat().st_mtime < oldest:
                path.unlink()


def _spinner(words: str) -> contextlib.AbstractContextManager[object]:
    console = Console(stderr=True, highlight=False)
    return console.status(words) if console.is_terminal else contextlib.nullcontext()


def _say(words: str) -> None:
    Console(stderr=True, highlight=False).print(f"cutwater: {words}", markup=False, soft_wrap=True)

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cutwater.errors import UserError
from cutwater.serving.client import JobUnreachableError, find_job
from cutwater.serving.registry import FOLDER_VARIABLE, Registration, register, registrations, this_host


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "jobs"))
    return tmp_path / "jobs"


def registration(job_id: str = "orders", *, started_at_ms: int = 1, name: str = "") -> Registration:
    address = "http://127.0.0.1:1"
    return Registration(job_id, name or job_id, address, "secret", this_host(), os.getpid(), started_at_ms)


def test_a_job_is_found_by_id_and_by_name_as_long_as_it_runs() -> None:
    registered = register(registration("orders-1", name="orders"))
    assert (
        find_job("orders").registration == find_job("orders-1").registration == registration("orders-1", name="orders")
    )
    registered.withdraw()
    assert list(registrations()) == []
    with pytest.raises(UserError, match='there is no job "orders"'):
        find_job("orders")


def test_only_the_user_can_read_the_token(folder: Path) -> None:
    folder.mkdir(mode=0o755)
    register(registration())
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}


def test_of_several_with_one_name_the_id_must_be_given() -> None:
    register(registration("orders-1", name="orders"))
    register(registration("orders-2", name="orders"))
    with pytest.raises(UserError, match="several jobs") as refused:
        find_job("orders")
    assert refused.value.detail == "orders-1, orders-2"
    assert find_job("orders-2").registration.job_id == "orders-2"


def killed_driver(folder: Path, job_id: str) -> None:
    """A process that registers a job and is killed."""
    program = (
        "import os, sys, time\n"
        "from cutwater.serving.registry import Registration, register, this_host\n"
        f"job, address = {job_id!r}, 'http://127.0.0.1:1'\n"
        "kept = register(Registration(job, job, address, 't', this_host(), os.getpid(), 5))\n"
        "print('registered', flush=True)\n"
        "sys.stdin.read()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, FOLDER_VARIABLE: str(folder)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"registered\n"
    assert [lives for each, lives in registrations() if each.job_id == job_id] == [True]
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert process.stdin is not None
    process.stdin.close()


@pytest.mark.threads
def test_that_a_driver_was_killed_is_told_until_the_job_runs_again(folder: Path) -> None:
    killed_driver(folder, "orders")
    with pytest.raises(JobUnreachableError, match='the driver of job "orders" is gone'):
        find_job("orders")
    registered = register(registration("orders", started_at_ms=9))
    assert [(each.started_at_ms, lives) for each, lives in registrations()] == [(9, True)]
    registered.withdraw()
    assert list(folder.iterdir()) == []


def test_what_others_have_put_there_is_not_read(folder: Path, tmp_path: Path) -> None:
    register(registration("mine"))
    (tmp_path / "elsewhere.json").write_bytes((next(folder.glob("*.json"))).read_bytes())
    (folder / "link.json").symlink_to(tmp_path / "elsewhere.json")
    (folder / "half.json").write_text('{"job_id": "or')
    assert [each.job_id for each, _ in registrations()] == ["mine"]

"""Whose local folders are removed, and when?"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from cutwater.snapshots.local_files import LocalFiles

MAKE_A_FOLDER_AND_DIE = """
import os, sys
from cutwater.snapshots.local_files import LocalFiles
print(LocalFiles(sys.argv[1], "job").new_folder("state"), flush=True)
os.kill(os.getpid(), 9)
"""


def folder_of_a_killed_process(root: Path) -> str:
    command = [sys.executable, "-c", MAKE_A_FOLDER_AND_DIE, str(root)]
    killed = subprocess.run(command, capture_output=True, text=True, env={"PYTHONPATH": os.pathsep.join(sys.path)})
    return killed.stdout.strip()


def test_the_folder_of_a_living_slot_in_another_container_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = LocalFiles(str(tmp_path), "job").new_folder("state")
    gc.collect()  # the process lives, whatever becomes of the object

    def no_such_process(pid: int, signal: int) -> NoReturn:
        raise ProcessLookupError  # what a number of another namespace looks like from here

    monkeypatch.setattr(os, "kill", no_such_process)
    LocalFiles(str(tmp_path), "job").new_folder("state")
    assert os.path.isdir(folder)


def test_the_folder_of_a_process_that_was_killed_is_removed(tmp_path: Path) -> None:
    folder = folder_of_a_killed_process(tmp_path)
    assert os.path.isdir(folder)
    own = LocalFiles(str(tmp_path), "job").new_folder("state")
    assert not os.path.exists(folder)
    assert sorted(os.listdir(tmp_path / "job")) == sorted([os.path.basename(own), _lock_name(own)])


def test_the_folder_is_removed_though_another_process_has_the_number_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = folder_of_a_killed_process(tmp_path)
    monkeypatch.setattr(os, "kill", lambda pid, signal: None)
    LocalFiles(str(tmp_path), "job").new_folder("state")
    assert not os.path.exists(folder)


def test_a_slot_that_ends_leaves_nothing_and_touches_nothing_of_others(tmp_path: Path) -> None:
    ending, staying = LocalFiles(str(tmp_path), "job"), LocalFiles(str(tmp_path), "job")
    ending.new_folder("state")
    kept = staying.new_folder("state")
    ending.remove(job_is_over=True)
    assert sorted(os.listdir(tmp_path / "job")) == sorted([os.path.basename(kept), _lock_name(kept)])
    staying.remove(job_is_over=True)
    assert os.listdir(tmp_path) == []


def _lock_name(folder: str) -> str:
    pid, token, *_ = os.path.basename(folder).split("-")
    return f"{pid}-{token}.lock"

"""Runs of one job that share a folder, from end to end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import cutwater as cw
from cutwater.testing.harness import LocalLauncher

pytestmark = pytest.mark.simulation


def run(folder: Path, number: int, *, launcher: LocalLauncher | None = None, **sink: Any) -> None:
    env = cw.Environment(launcher=launcher or LocalLauncher(), checkpoints=cw.Checkpoints(every="100ms"))
    env.from_collection([{"n": number}], uid="in").sink_to(cw.sinks.json_lines(folder, **sink), uid="out")
    env.execute("nightly")


def rows(folder: Path) -> list[int]:
    return sorted(json.loads(line)["n"] for path in folder.glob("part-*") for line in path.open())


def test_a_second_run_into_a_folder_with_output_is_refused(tmp_path: Path) -> None:
    run(tmp_path, 1)
    with pytest.raises(cw.errors.ConfigurationError, match="if_exists"):
        run(tmp_path, 2)
    assert rows(tmp_path) == [1]


@pytest.mark.parametrize("same_storage", [True, False])
def test_runs_that_append_add_up_whether_or_not_they_know_of_each_other(tmp_path: Path, same_storage: bool) -> None:
    launcher = LocalLauncher()
    for number in (1, 2, 3):
        run(tmp_path, number, launcher=launcher if same_storage else None, if_exists="append")
    assert rows(tmp_path) == [1, 2, 3]

"""Commands for running jobs, against the control service of a job that runs nowhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.serving.stand_in import StandInJob
from typer.testing import CliRunner, Result

from cutwater.cli.main import app
from cutwater.config import Control
from cutwater.errors import OperationsError
from cutwater.serving.attaching import AttachedControl
from cutwater.serving.registry import FOLDER_VARIABLE

pytestmark = pytest.mark.threads


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandInJob]:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    made = StandInJob()
    attached = AttachedControl(made, name="orders", options=Control())
    yield made
    attached.withdraw()
    attached.close()


def called(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def test_a_job_is_listed_and_shown(job: StandInJob) -> None:
    listed = json.loads(called("list", "--json").stdout)
    assert [(each["job_id"], each["state"], each["parallelism"]) for each in listed] == [("orders", "running", 2)]
    assert "orders" in called("list").stdout
    assert 'job "orders" (orders): running, attempt 2' in called("status", "orders").stdout
    assert json.loads(called("status", "orders", "--json").stdout)["tasks"][0]["lag"] == {"orders/0": 3}
    assert "completed" in called("checkpoints", "orders").stdout
    assert "attempt 1: slot slot-1 was lost" in called("exceptions", "orders").stdout


def test_what_is_asked_for_reaches_the_job(job: StandInJob, tmp_path: Path) -> None:
    assert called("checkpoint", "orders").exit_code == 0
    assert called("savepoint", "orders", str(tmp_path)).stdout == "file:///savepoints/1\n"
    assert called("rescale", "orders", "4").exit_code == 0
    assert called("stop", "orders", "--savepoint", "s3://bucket/s", "--drain").stdout == "file:///savepoints/1\n"
    assert called("cancel", "orders").exit_code == 0
    assert job.asked == [
        "checkpoint",
        ("savepoint", str(tmp_path)),
        ("rescale", 4),
        ("stop", "s3://bucket/s", True),
        "cancel",
    ]


def test_what_can_not_be_done_is_told_in_words(job: StandInJob) -> None:
    def fails(what: object) -> str:
        raise OperationsError("there are 2 cores", hint="free some")

    job.does = fails
    result = called("rescale", "orders", "4")
    assert (result.exit_code, result.stderr.splitlines()[0]) == (1, "there are 2 cores")
    assert "Traceback" not in result.stderr


def test_a_job_that_is_not_there_is_named_with_those_that_are(job: StandInJob) -> None:
    result = called("status", "others")
    assert result.exit_code == 2
    assert result.stderr.splitlines()[:2] == ['there is no job "others"', "  detail: there are orders"]


def test_where_no_job_runs_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "none"))
    assert called("list").stdout == "no job of yours runs on this machine\n"
    assert called("list", "--json").stdout == "[]\n"

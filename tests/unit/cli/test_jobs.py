"""Commands for running jobs, against the control service of a job that runs nowhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.serving.stand_in import StandInJob, running_status
from typer.testing import CliRunner, Result

from cutwater.cli.completing import job_names
from cutwater.cli.main import app
from cutwater.cli.showing import how_far_of
from cutwater.config import Control
from cutwater.errors import OperationsError
from cutwater.protocol.lifecycle import JobState
from cutwater.serving.attaching import AttachedControl
from cutwater.serving.client import JobClient, JobEndedError, find_job
from cutwater.serving.registry import FOLDER_VARIABLE
from cutwater.status import CheckpointStatus, JobStatus, LogLine

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
    assert "orders  RUNNING  attempt 2, 0 s, parallelism 2  1 restart" in called("status", "orders").stdout
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


def test_the_doctor_names_what_is_wrong_and_exits_with_three(job: StandInJob) -> None:
    healthy = called("doctor", "orders")
    assert (healthy.exit_code, healthy.stdout.splitlines()[0]) == (
        0,
        "healthy: the job has just started: nothing is wrong so far",
    )
    causes = tuple(
        replace(job.now.recoveries[0], attempt=number, cause=f"slot-{number} was lost") for number in (1, 2, 3)
    )
    job.now = replace(job.now, recoveries=causes)
    ill = called("doctor", "orders")
    assert (ill.exit_code, ill.stdout.splitlines()[0]) == (
        3,
        "critical: the job fails again and again for the same reason: slot-3 was lost",
    )
    assert json.loads(called("doctor", "orders", "--json").stdout)["findings"][0]["severity"] == "critical"


def test_where_no_job_runs_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "none"))
    assert called("list").stdout == "no job of yours runs on this machine\n"
    assert called("list", "--json").stdout == "[]\n"


def test_every_command_that_acts_writes_json(job: StandInJob, tmp_path: Path) -> None:
    assert json.loads(called("savepoint", "orders", str(tmp_path), "--json").stdout)["path"] == "file:///savepoints/1"
    for command in (("checkpoint", "orders"), ("rescale", "orders", "4"), ("stop", "orders")):
        assert json.loads(called(*command, "--json").stdout)["state"] == "completed"
    assert json.loads(called("cancel", "orders", "--json").stdout) == {"told": True}


def test_top_prints_once_where_there_is_no_terminal(job: StandInJob) -> None:
    assert "orders  RUNNING  attempt 2" in called("top").stdout
    assert "orders  RUNNING  attempt 2" in called("top", "orders").stdout
    assert [each["job_id"] for each in json.loads(called("top", "--json").stdout)] == ["orders"]


def test_top_shows_all_jobs_in_a_line_each(job: StandInJob) -> None:
    other = StandInJob()
    other.job_id = "clicks"
    other.now = replace(other.now, job_id="clicks", name="clicks")
    attached = AttachedControl(other, name="clicks", options=Control())
    try:
        shown = [line.split()[:2] for line in called("top").stdout.splitlines()]
    finally:
        attached.withdraw()
        attached.close()
    assert sorted(shown[1:]) == [["clicks", "running"], ["orders", "running"]]


def test_log_lines_are_shown_with_where_they_come_from(job: StandInJob) -> None:
    job.lines = (
        LogLine(1, 0, "INFO", "cutwater", "it begins"),
        LogLine(2, 0, "WARNING", "orders", "odd\x1b[2J order", slot="slot-1", task="count[0]"),
        LogLine(3, 0, "PRINT", "stdout", "hello", slot="slot-1", task="count[0]"),
    )
    assert called("logs", "orders", "--lines", "2").stdout.splitlines() == [
        " slot-1 count[0] WARNING orders: odd\\x1b[2J order",
        " slot-1 count[0] hello",
    ]
    assert [json.loads(line)["number"] for line in called("logs", "orders", "--json").stdout.splitlines()] == [1, 2, 3]


def test_logs_are_followed_until_the_job_ends(job: StandInJob, monkeypatch: pytest.MonkeyPatch) -> None:
    job.lines = (LogLine(1, 0, "PRINT", "stdout", "first"),)

    def meanwhile(seconds: float) -> None:
        job.lines = (*job.lines, LogLine(len(job.lines) + 1, 0, "PRINT", "stdout", "next"))
        if len(job.lines) == 4:
            monkeypatch.setattr(JobClient, "logs", has_ended)

    def has_ended(client: JobClient, after: int = 0) -> list[LogLine]:
        raise JobEndedError('job "orders" has ended')

    monkeypatch.setattr("cutwater.cli.logs.time.sleep", meanwhile)
    result = called("logs", "orders", "--follow")
    assert [line.split()[-1] for line in result.stdout.splitlines()] == ["first", "next", "next"]
    assert (result.exit_code, result.stderr) == (0, 'job "orders" has ended\n')


def test_names_of_jobs_are_completed(job: StandInJob) -> None:
    assert job_names("ord") == ["orders"]
    assert job_names("x") == []


def test_a_job_that_has_ended_meanwhile_is_told_apart_from_a_driver_that_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    monkeypatch.setattr("cutwater.serving.client.CONNECT_AGAIN_SECONDS", 0.0)
    attached = AttachedControl(StandInJob(), name="orders", options=Control())
    client = find_job("orders")
    attached.withdraw()
    attached.close()
    with pytest.raises(JobEndedError, match='job "orders" has ended'):
        client.status()


def test_how_far_a_savepoint_is() -> None:
    status = running_status()
    assert how_far_of(status) == (0, None, "the job is running")
    under_way = CheckpointStatus(5, "savepoint", 2, "under way", 0.1, tasks_acknowledged=1, tasks_total=4)
    assert how_far_of(replace(status, checkpoints_under_way=(under_way,))) == (
        1,
        4,
        "1 of 4 tasks have written their state",
    )


def test_a_job_that_restarts_is_asked_when_it_runs_again(job: StandInJob, monkeypatch: pytest.MonkeyPatch) -> None:
    job.end(JobState.RESTARTING)
    waited: list[JobState] = []

    def meanwhile(seconds: float) -> None:
        if job.now.state is not JobState.RUNNING:
            waited.append(job.now.state)
            job.end({JobState.RESTARTING: JobState.DEPLOYING}.get(job.now.state, JobState.RUNNING))

    monkeypatch.setattr("cutwater.cli.showing.time.sleep", meanwhile)
    assert called("checkpoint", "orders").exit_code == 0
    assert (job.asked, waited) == (["checkpoint"], [JobState.RESTARTING, JobState.DEPLOYING])


def test_what_fails_because_the_job_restarts_is_asked_again(job: StandInJob, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails_once(what: object) -> str:
        if len(job.asked) > 1:
            return "file:///savepoints/2"
        job.end(JobState.RESTARTING)
        raise OperationsError("no attempt of the job is running")

    def meanwhile(seconds: float) -> None:
        if len(job.asked) == 1 and job.now.state is JobState.RESTARTING:
            job.end(JobState.RUNNING)

    job.does = fails_once
    monkeypatch.setattr("cutwater.cli.showing._wait_until_it_runs", lambda client, update: meanwhile(0))
    assert called("savepoint", "orders", "s3://bucket/s").stdout == "file:///savepoints/2\n"
    assert len(job.asked) == 2


def test_what_fails_because_the_job_ends_is_told_though_nobody_answers_any_more(
    job: StandInJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ends(what: object) -> str:
        monkeypatch.setattr(JobClient, "status", gone)
        raise OperationsError("the job has ended: cancelled")

    def gone(client: JobClient) -> JobStatus:
        raise JobEndedError('job "orders" has ended')

    job.does = ends
    result = called("savepoint", "orders", "s3://bucket/s")
    assert (result.exit_code, result.stderr) == (1, "the job has ended: cancelled\n")

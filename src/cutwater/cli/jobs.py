"""`cutwater list | status | checkpoints | exceptions | checkpoint | savepoint | stop | cancel | rescale`.

Each talks to the control service of a running job, which it finds by id or name.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from cutwater.durations import describe_seconds

Job = Annotated[str, typer.Argument(help="The job's id or name: see `cutwater list`.")]
AsJson = Annotated[bool, typer.Option("--json", help="JSON, for programs.")]


def list_jobs(*, as_json: AsJson = False) -> None:
    """Lists the jobs that you have started on this machine, and those whose driver was killed."""
    from cutwater.serving.client import JobClient, JobUnreachableError
    from cutwater.serving.endpoints import summary_of
    from cutwater.serving.registry import registrations

    rows: list[dict[str, Any]] = []
    for known, lives in registrations():
        row = {"job_id": known.job_id, "name": known.name, "address": known.address, "pid": known.pid}
        try:
            row |= _plain(summary_of(JobClient(known).status())) if lives else {"state": "driver gone"}
        except JobUnreachableError:
            row["state"] = "does not answer"
        rows.append(row)
    if as_json:
        _print_json(rows)
        return
    if not rows:
        _console().print("no job of yours runs on this machine")
        return
    _print_table(
        ("job", "state", "slots", "running", "checkpoints", "restarts", "control service"),
        [
            (
                row["job_id"],
                row["state"].replace("_", " "),
                row.get("parallelism", ""),
                describe_seconds(round(row["running_seconds"])) if "running_seconds" in row else "",
                row.get("checkpoints_completed", ""),
                row.get("restarts", ""),
                f"{row['address']}, process {row['pid']}",
            )
            for row in rows
        ],
    )


def status(job: Job, *, as_json: AsJson = False) -> None:
    """Shows how a job is doing."""
    from cutwater.serving.client import find_job

    found = find_job(job).status()
    if as_json:
        _print_json(found)
        return
    console = _console()
    console.print(f'job "{found.name}" ({found.job_id}): {found.state.replace("_", " ")}, attempt {found.attempt}')
    if found.waiting_for:
        console.print(f"waiting for {found.waiting_for}")
    console.print(
        f"{found.checkpoints_completed} checkpoints, {found.checkpoints_failed} failed, {found.restarts} restarts"
    )
    _print_table(
        ("task", "slot", "in", "out", "busy", "backpressured", "lag"),
        [
            (
                task.task,
                task.slot,
                f"{task.records_in:,}",
                f"{task.records_out:,}",
                _share(task.busy_seconds, task),
                _share(task.backpressured_seconds, task),
                f"{sum(task.lag.values()):,}" if task.lag else "",
            )
            for task in found.tasks
        ],
    )
    for warning in found.warnings[-5:]:
        console.print(f"warning: {warning}", markup=False)


def checkpoints(job: Job, *, as_json: AsJson = False) -> None:
    """Lists the newest checkpoints of a job."""
    from cutwater.serving.client import find_job

    found = find_job(job).checkpoints()
    if as_json:
        _print_json(found)
        return
    _print_table(
        ("id", "kind", "begun", "took", "size", "written", "alignment", "outcome"),
        [
            (
                each.checkpoint,
                each.kind,
                _time_of_day(each.triggered_at_ms),
                f"{each.duration_seconds * 1000:.0f} ms",
                f"{each.size_bytes:,} B",
                f"{each.new_bytes:,} B",
                f"{each.alignment_seconds_max * 1000:.0f} ms",
                each.outcome,
            )
            for each in found
        ],
    )


def exceptions(job: Job, *, as_json: AsJson = False) -> None:
    """Shows why attempts of a job failed, the newest first."""
    from cutwater.serving.client import find_job

    found = find_job(job).exceptions()
    if as_json:
        _print_json(found)
        return
    console = _console()
    if not found.recoveries:
        console.print("no attempt has failed")
    for each in found.recoveries:
        what = f"attempt {each.attempt}" if each.attempt else "no attempt could begin"
        console.print(f"{_time_of_day(each.noticed_at_ms)}  {what}: {each.cause}", markup=False)


def checkpoint(job: Job) -> None:
    """Takes a checkpoint of a job now."""
    from cutwater.serving.client import find_job

    client = find_job(job)
    _wait(client, client.checkpoint(), "checkpoint")
    _console().print("the checkpoint is complete")


def savepoint(job: Job, folder: Annotated[str, typer.Argument(help="It gets a folder of its own below this.")]) -> None:
    """Takes a savepoint while the job goes on, and prints its path."""
    from cutwater.serving.client import find_job

    client = find_job(job)
    typer.echo(_wait(client, client.savepoint(_absolute(folder)), "savepoint").path)


def stop(
    job: Job,
    *,
    savepoint: Annotated[str | None, typer.Option(help="A folder below which a last savepoint is taken.")] = None,
    drain: Annotated[
        bool, typer.Option("--drain", help="Event time ends, too: open windows give what they have.")
    ] = False,
) -> None:
    """Ends a job when everything that was read has reached the sinks; prints the path of the savepoint, if any."""
    from cutwater.serving.client import find_job

    client = find_job(job)
    folder = None if savepoint is None else _absolute(savepoint)
    done = _wait(client, client.stop(folder, drain=drain), "stop")
    typer.echo(done.path) if done.path else _console().print("the job was told to stop")


def cancel(job: Job) -> None:
    """Ends a job as it is, without a last checkpoint."""
    from cutwater.serving.client import find_job

    find_job(job).cancel()
    _console().print("the job was told to end")


def rescale(job: Job, parallelism: Annotated[int, typer.Argument(min=1, help="Tasks per operator.")]) -> None:
    """Changes the number of tasks of a running job, and returns when they run."""
    from cutwater.serving.client import find_job

    client = find_job(job)
    _wait(client, client.rescale(parallelism), "rescale")
    _console().print(f"the job runs with parallelism {parallelism}")


def _wait(client: Any, operation: Any, what: str) -> Any:
    """A line that moves, for people only."""
    console = Console(stderr=True)
    with console.status(f"{what} of job {client.registration.job_id} …"):
        return client.wait_for(operation)


def _absolute(folder: str) -> str:
    from cutwater.snapshots.storage import absolute_url

    return absolute_url(folder)


def _share(seconds: float, task: Any) -> str:
    total = task.busy_seconds + task.idle_seconds + task.backpressured_seconds
    return f"{seconds / total:.0%}" if total else ""


def _time_of_day(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).astimezone().strftime("%H:%M:%S") if milliseconds else ""


def _console() -> Console:
    return Console(highlight=False)


def _print_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*map(str, row))
    _console().print(table)


def _plain(value: Any) -> Any:
    import msgspec

    return msgspec.to_builtins(value)


def _print_json(value: Any) -> None:
    import msgspec

    sys.stdout.write(msgspec.json.format(msgspec.json.encode(value)).decode() + "\n")

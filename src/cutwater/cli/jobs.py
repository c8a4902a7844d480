"""`cutwater list | status | checkpoints | exceptions | checkpoint | savepoint | stop | cancel | rescale`.

Each talks to the control service of a running job, which it finds by id or name.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cutwater.cli.showing import AsJson, Job, carried_out, console, plain, print_json, print_table


def list_jobs(*, as_json: AsJson = False) -> None:
    """Lists the jobs that you have started on this machine, and those whose driver was killed."""
    from cutwater.serving.client import JobClient, JobUnreachableError
    from cutwater.serving.registry import registrations
    from cutwater.terminal import figures

    rows: list[dict[str, Any]] = []
    for known, lives in registrations():
        row = {"job_id": known.job_id, "name": known.name, "address": known.address, "pid": known.pid, "log": known.log}
        try:
            row |= row_of(JobClient(known).status()) if lives else {"state": "driver gone"}
        except JobUnreachableError:
            row["state"] = "does not answer"
        rows.append(row)
    if as_json:
        print_json(rows)
        return
    if not rows:
        console().print("no job of yours runs on this machine")
        return
    print_table(
        (*JOB_COLUMNS, "control service"),
        [(*cells_of(row, figures), f"{row['address']}, process {row['pid']}") for row in rows],
    )


JOB_COLUMNS = ("job", "state", "tasks", "running", "read/s", "written/s", "lag", "checkpoints", "restarts")


def row_of(status: Any) -> dict[str, Any]:
    """A job in one line, for programs."""
    from cutwater.serving.words import summary_of
    from cutwater.terminal import figures

    return {
        **plain(summary_of(status)),
        "records_read_per_second": figures.rate_read(status),
        "records_written_per_second": figures.rate_written(status),
        "lag": figures.lag_of(status),
    }


def cells_of(row: dict[str, Any], figures: Any) -> tuple[object, ...]:
    """The same for people; of a job that does not answer, what is known."""
    if "running_seconds" not in row:
        return (row["job_id"], row["state"], *("" for _ in JOB_COLUMNS[2:]))
    return (
        row["job_id"],
        row["state"].replace("_", " "),
        row["parallelism"],
        figures.age(row["running_seconds"]),
        figures.rate(row["records_read_per_second"]),
        figures.rate(row["records_written_per_second"]),
        "" if row["lag"] is None else figures.count(row["lag"]),
        row["checkpoints_completed"],
        row["restarts"],
    )


def status(job: Job, *, as_json: AsJson = False) -> None:
    """Shows how a job is doing: rates, tasks, operators, checkpoints, warnings."""
    from cutwater.serving.client import find_job
    from cutwater.terminal.view import whole_view

    found = find_job(job).status()
    print_json(found) if as_json else console().print(whole_view(found))


def checkpoints(job: Job, *, as_json: AsJson = False) -> None:
    """Lists the newest checkpoints of a job."""
    from cutwater.serving.client import find_job
    from cutwater.terminal.view import checkpoints_table

    found = find_job(job).checkpoints()
    print_json(found) if as_json else console().print(checkpoints_table(tuple(found)))


def exceptions(job: Job, *, as_json: AsJson = False) -> None:
    """Shows why attempts of a job failed, the newest first."""
    from cutwater.serving.client import find_job
    from cutwater.terminal.figures import time_of_day

    found = find_job(job).exceptions()
    if as_json:
        print_json(found)
        return
    if not found.recoveries:
        console().print("no attempt has failed")
    for each in found.recoveries:
        what = f"attempt {each.attempt}" if each.attempt else "no attempt could begin"
        console().print(f"{time_of_day(each.noticed_at_ms)}  {what}: {each.cause}", markup=False)


def checkpoint(job: Job, *, as_json: AsJson = False) -> None:
    """Takes a checkpoint of a job now."""
    from cutwater.serving.client import find_job

    client = find_job(job)
    _tell(carried_out(client, client.checkpoint, "checkpoint"), "the checkpoint is complete", as_json=as_json)


def savepoint(
    job: Job,
    folder: Annotated[str, typer.Argument(help="It gets a folder of its own below this.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Takes a savepoint while the job goes on, and prints its path."""
    from cutwater.serving.client import find_job

    client = find_job(job)
    target = _absolute(folder)
    _tell(carried_out(client, lambda: client.savepoint(target), "savepoint"), as_json=as_json)


def stop(
    job: Job,
    *,
    savepoint: Annotated[str | None, typer.Option(help="A folder below which a last savepoint is taken.")] = None,
    drain: Annotated[
        bool, typer.Option("--drain", help="Event time ends, too: open windows give what they have.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Ends a job when everything that was read has reached the sinks; prints the path of the savepoint, if any."""
    from cutwater.serving.client import find_job

    client = find_job(job)
    folder = None if savepoint is None else _absolute(savepoint)
    done = carried_out(client, lambda: client.stop(folder, drain=drain), "stop")
    _tell(done, "the job was told to stop", as_json=as_json)


def cancel(job: Job, *, as_json: AsJson = False) -> None:
    """Ends a job as it is, without a last checkpoint."""
    from cutwater.serving.client import find_job

    find_job(job).cancel()
    print_json({"told": True}) if as_json else console().print("the job was told to end")


def rescale(
    job: Job,
    parallelism: Annotated[int, typer.Argument(min=1, help="Tasks per operator.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Changes the number of tasks of a running job, and returns when they run."""
    from cutwater.serving.client import find_job

    client = find_job(job)
    done = carried_out(client, lambda: client.rescale(parallelism), "rescale")
    _tell(done, f"the job runs with parallelism {parallelism}", as_json=as_json)


def _tell(done: Any, words: str = "", *, as_json: bool) -> None:
    """A path is all that is printed, so that a script can use it."""
    if as_json:
        print_json(done)
    elif done.path:
        typer.echo(done.path)
    else:
        console().print(words)


def _absolute(folder: str) -> str:
    from cutwater.snapshots.storage import absolute_url

    return absolute_url(folder)

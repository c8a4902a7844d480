"""Sources and sinks that are Spark's own: each row exactly once, whatever is killed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq

import cutwater as cw
from cutwater.api.jobs import JobHandle

from .ledger_job import wait_for

REPOSITORY = Path(__file__).parents[2]
RECORDS = 20_000
DRIVER_SECONDS = 240
SCHEMA = pa.schema([("number", pa.int64())])


def environment(spark: Any, root: Path, **options: Any) -> cw.Environment:
    return cw.Environment(
        spark=spark,
        parallelism=2,
        checkpoints=cw.Checkpoints(every="300ms", storage=f"file://{root}/checkpoints", tolerable_failures=100),
        restart=cw.restart.fixed_delay(attempts=50, delay="0s"),
        **options,
    )


def numbers(env: cw.Environment, *, per_second: float = 2_500) -> cw.DataStream:
    source = cw.sources.generator(lambda index: {"number": index}, count=RECORDS, per_second=per_second, splits=4)
    return env.from_source(source, uid="numbers")


def numbers_in(folder: Path) -> Counter[int]:
    found: Counter[int] = Counter()
    for path in folder.rglob("*.parquet"):
        if not any(part.startswith((".", "_")) for part in path.relative_to(folder).parts):
            found.update(pq.ParquetFile(path).read()["number"].to_pylist())
    return found


ONCE_EACH = Counter(range(RECORDS))


def staged_files(root: Path) -> list[Path]:
    return [path for path in (root / "checkpoints" / ".staging").rglob("*.parquet") if path.is_file()]


# for_each_epoch


def into_table(root: Path) -> Callable[[Any, int], None]:
    """Idempotent in the epoch: it replaces what an earlier call has written for it. Notes every call."""

    def write(dataframe: Any, epoch: int) -> None:
        with (root / "calls").open("a") as calls:
            print(epoch, file=calls)
        dataframe.write.mode("overwrite").parquet(f"{root}/table/epoch={epoch}")

    return write


def submit_epochs(spark: Any, root: Path, **start: Any) -> JobHandle:
    env = environment(spark, root)
    numbers(env).rebalance().sink_to(cw.sinks.for_each_epoch(into_table(root)), uid="table")
    return env.submit("epochs", require="exactly_once", **start)


def epochs_of(root: Path) -> list[int]:
    path = root / "calls"
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def kill_a_slot(job: JobHandle) -> None:
    """Returns when the job knows: another kill is another failure."""
    pid = next(slot.pid for slot in job.status().slots if slot.tasks)
    os.kill(pid, signal.SIGKILL)
    wait_for(job, lambda status: pid not in {slot.pid for slot in status.slots})


def test_every_row_reaches_the_function_in_one_epoch_when_slots_are_killed(spark: Any, tmp_path: Path) -> None:
    write = into_table(tmp_path)
    jobs: list[JobHandle] = []

    def write_and_kill(dataframe: Any, epoch: int) -> None:
        write(dataframe, epoch)
        if len(epochs_of(tmp_path)) <= 2:
            kill_a_slot(jobs[0])

    env = environment(spark, tmp_path)
    numbers(env).rebalance().sink_to(cw.sinks.for_each_epoch(write_and_kill), uid="table")
    jobs.append(env.submit("epochs", require="exactly_once"))
    assert jobs[0].wait("3min").restarts >= 2
    assert numbers_in(tmp_path / "table") == ONCE_EACH
    assert staged_files(tmp_path) == []


def test_a_function_that_fails_gets_the_same_rows_under_the_same_number_again(spark: Any, tmp_path: Path) -> None:
    given: list[tuple[int, list[int]]] = []

    def fail_at_first(dataframe: Any, epoch: int) -> None:
        given.append((epoch, sorted(row.number for row in dataframe.collect())))
        if len(given) == 1:
            raise ConnectionError("the table is locked")

    env = environment(spark, tmp_path)
    numbers(env, per_second=5_000).sink_to(cw.sinks.for_each_epoch(fail_at_first), uid="table")
    assert env.execute("epochs").restarts == 1
    first, second, *_ = given
    assert first == second
    assert [epoch for epoch, _ in given[1:]] == sorted({epoch for epoch, _ in given})
    assert sorted(number for _, rows in given[1:] for number in rows) == list(range(RECORDS))


DRIVER = """
    import sys
    sys.path.insert(0, {repository!r})
    from pathlib import Path
    from cutwater.deploy.session import embedded_session
    from tests.spark.{module} import {function}
    spark = embedded_session(4)
    {function}(spark, Path({root!r}), restore={restore!r}).wait("4min")
"""


@contextmanager
def driver_of(
    root: Path, function: str, restore: str | None = None, *, module: str = "test_spark_ends"
) -> Iterator[subprocess.Popen[bytes]]:
    """A process of its own that runs a job of this module, or of another one of this folder, to its end."""
    script = root / "driver.py"
    values = {"repository": str(REPOSITORY), "root": str(root), "restore": restore}
    script.write_text(textwrap.dedent(DRIVER).format(module=module, function=function, **values))
    driver = subprocess.Popen([sys.executable, script], cwd=root, start_new_session=True)
    try:
        yield driver
    finally:
        if driver.poll() is None:
            driver.kill()
            driver.wait()


def run_driver(root: Path, function: str, restore: str | None = None, **options: str) -> int:
    with driver_of(root, function, restore, **options) as driver:
        return driver.wait(DRIVER_SECONDS)


def kill_driver(driver: subprocess.Popen[bytes], when: Callable[[], bool]) -> None:
    """With all of its processes."""
    deadline = time.monotonic() + DRIVER_SECONDS
    while not when():
        assert driver.poll() is None, "the driver ended too soon"
        assert time.monotonic() < deadline
        time.sleep(0.005)
    family = psutil.Process(driver.pid).children(recursive=True)
    driver.kill()
    driver.wait()
    assert psutil.wait_procs(family, timeout=30)[1] == []


def submit_dying(spark: Any, root: Path, **start: Any) -> JobHandle:
    """The second call dies with the driver: the checkpoint is complete, and nothing of it is in the table."""
    write = into_table(root)

    def write_or_die(dataframe: Any, epoch: int) -> None:
        if len(epochs_of(root)) == 1 and not (root / "died").exists():
            (root / "died").write_text(f"{epoch} {dataframe.count()}")
            os._exit(9)
        (root / f"rows-{epoch}").write_text(f"{epoch} {dataframe.count()}")
        write(dataframe, epoch)

    env = environment(spark, root)
    numbers(env).rebalance().sink_to(cw.sinks.for_each_epoch(write_or_die), uid="table")
    return env.submit("epochs", require="exactly_once", **start)


def test_the_next_driver_applies_the_epoch_at_which_the_last_one_died(tmp_path: Path) -> None:
    assert run_driver(tmp_path, "submit_dying") == 9
    epoch, rows = (tmp_path / "died").read_text().split()
    assert run_driver(tmp_path, "submit_dying", "latest") == 0
    assert (tmp_path / f"rows-{epoch}").read_text() == f"{epoch} {rows}"
    assert numbers_in(tmp_path / "table") == ONCE_EACH
    assert staged_files(tmp_path) == []


def test_a_driver_killed_at_any_moment_loses_and_repeats_nothing(tmp_path: Path) -> None:
    with driver_of(tmp_path, "submit_epochs") as driver:
        kill_driver(driver, lambda: len(epochs_of(tmp_path)) >= 2)
    assert run_driver(tmp_path, "submit_epochs", "latest") == 0
    assert numbers_in(tmp_path / "table") == ONCE_EACH
    assert staged_files(tmp_path) == []


def test_a_job_stopped_with_a_savepoint_gives_no_row_under_another_number(spark: Any, tmp_path: Path) -> None:
    job = submit_epochs(spark, tmp_path)
    wait_for(job, lambda _: len(epochs_of(tmp_path)) >= 1)
    path = job.stop(savepoint=str(tmp_path / "savepoints"))
    job.wait("60s")
    shutil.rmtree(tmp_path / "checkpoints")
    submit_epochs(spark, tmp_path, restore=path).wait("3min")
    assert numbers_in(tmp_path / "table") == ONCE_EACH


# A streaming DataFrame


def add_input(root: Path, file: int, *, files: int) -> None:
    """Appears whole."""
    rows = range(file * RECORDS // files, (file + 1) * RECORDS // files)
    (root / "input").mkdir(exist_ok=True)
    hidden = root / "input" / f"_{file}.parquet"
    pq.write_table(pa.table({"number": list(rows)}, schema=SCHEMA), hidden)
    hidden.rename(root / "input" / f"{file:03d}.parquet")


def submit_stream(spark: Any, root: Path, **start: Any) -> JobHandle:
    stream = spark.readStream.schema("number long").option("maxFilesPerTrigger", 1).parquet(str(root / "input"))
    env = environment(spark, root)
    (
        env.from_streaming_dataframe(stream, available_now=True, uid="stream")
        .rebalance()
        .sink_to(cw.sinks.parquet(root / "out"), uid="out")
    )
    return env.submit("stream", require="exactly_once", **start)


def _runs_and_wrote(status: cw.JobStatus, root: Path, rows: int) -> bool:
    return status.state is cw.JobState.RUNNING and numbers_in(root / "out").total() >= rows


def test_every_row_of_a_streaming_dataframe_arrives_once_when_slots_are_killed(spark: Any, tmp_path: Path) -> None:
    for file in range(20):
        add_input(tmp_path, file, files=20)
    job = submit_stream(spark, tmp_path)
    for rows in (1, 8_000):
        wait_for(job, lambda status, rows=rows: _runs_and_wrote(status, tmp_path, rows))  # type: ignore[misc]
        kill_a_slot(job)
    assert job.wait("3min").restarts >= 2
    assert numbers_in(tmp_path / "out") == ONCE_EACH


def test_the_query_goes_on_with_the_next_driver(tmp_path: Path) -> None:
    for file in range(20):
        add_input(tmp_path, file, files=20)
    with driver_of(tmp_path, "submit_stream") as driver:
        kill_driver(driver, lambda: numbers_in(tmp_path / "out").total() >= 3_000)
    assert numbers_in(tmp_path / "out") != ONCE_EACH, "it was over before it was killed"
    assert run_driver(tmp_path, "submit_stream", "latest") == 0
    assert numbers_in(tmp_path / "out") == ONCE_EACH


def test_batches_that_were_read_are_deleted_while_the_query_runs(spark: Any, tmp_path: Path) -> None:
    add_input(tmp_path, 0, files=2)
    stream = spark.readStream.schema("number long").parquet(str(tmp_path / "input"))
    env = environment(spark, tmp_path)
    env.from_streaming_dataframe(stream, uid="stream").sink_to(cw.sinks.parquet(tmp_path / "out"), uid="out")
    job = env.submit("stream")
    wait_for(job, lambda _: numbers_in(tmp_path / "out").total() == RECORDS // 2 and not staged_files(tmp_path))
    add_input(tmp_path, 1, files=2)
    wait_for(job, lambda _: numbers_in(tmp_path / "out") == ONCE_EACH and not staged_files(tmp_path))
    job.cancel()
    job.wait("60s")

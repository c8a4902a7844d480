"""Python data sources of Spark as ends of a job: each row exactly once, whatever is killed."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    InputPartition,
    WriterCommitMessage,
)

import cutwater as cw
from cutwater.api.jobs import JobHandle

from .ledger_job import wait_for
from .test_spark_ends import (
    DRIVER_SECONDS,
    ONCE_EACH,
    RECORDS,
    SCHEMA,
    driver_of,
    environment,
    kill_a_slot,
    kill_driver,
    numbers_in,
    run_driver,
)

MODULE = "test_python_data_sources"


class Ranges(DataSource):
    """The numbers below RECORDS, a few more at each look. Notes what was committed."""

    def schema(self) -> str:
        return "number long"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return RangesReader(self.options["folder"])


class RangesReader(DataSourceStreamReader):
    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)

    def initialOffset(self) -> dict[str, Any]:
        return {"number": 0}

    def latestOffset(self, start: dict[str, Any] | None = None, limit: Any = None) -> dict[str, Any]:
        """Before 4.2, Spark doesn't say what was read last."""
        known = self._committed() if start is None else start["number"]
        return {"number": min(RECORDS, known + 1_500)}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        middle = (start["number"] + end["number"]) // 2
        return [InputPartition(bounds) for bounds in ((start["number"], middle), (middle, end["number"]))]

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        for number in range(*partition.value):
            yield (number,)

    def commit(self, end: dict[str, Any]) -> None:
        hidden = self._folder / ".committed"
        hidden.write_text(str(end["number"]))
        hidden.rename(self._folder / "committed")

    def _committed(self) -> int:
        path = self._folder / "committed"
        return int(path.read_text()) if path.exists() else 0


class Archive(DataSource):
    """A file for each task and epoch, in sight when it is committed."""

    def streamWriter(self, schema: Any, overwrite: bool) -> DataSourceStreamWriter:
        return ArchiveWriter(self.options["folder"])


@dataclass
class Written(WriterCommitMessage):
    path: str


class ArchiveWriter(DataSourceStreamWriter):
    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)

    def write(self, iterator: Iterator[Any]) -> Written:
        hidden = self._folder / ".written" / f"{uuid.uuid4().hex}.parquet"
        hidden.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"number": [row.number for row in iterator]}, schema=SCHEMA), hidden)
        return Written(str(hidden))

    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803
        for message in messages:
            hidden = self._folder / f".{batchId}-{Path(message.path).name}"
            shutil.copyfile(message.path, hidden)
            hidden.rename(self._folder / hidden.name.removeprefix("."))


def submit_data_sources(spark: Any, root: Path, **start: Any) -> JobHandle:
    env = environment(spark, root)
    (root / "archive").mkdir(exist_ok=True)
    source = cw.sources.spark_data_source(Ranges, options={"folder": str(root)}, schema=SCHEMA)
    sink = cw.sinks.spark_data_source(Archive, options={"folder": str(root / "archive")}, schema=SCHEMA)
    env.from_source(source, uid="ranges").rebalance().sink_to(sink, uid="archive")
    return env.submit("data sources", require="exactly_once", **start)


def all_is_committed(root: Path) -> bool:
    path = root / "committed"
    return path.exists() and path.read_text() == str(RECORDS)


def submit_until_committed(spark: Any, root: Path, **start: Any) -> JobHandle:
    """The stream of such a source never ends by itself."""
    job = submit_data_sources(spark, root, **start)
    wait_for(job, lambda _: all_is_committed(root), seconds=DRIVER_SECONDS)
    job.stop()
    return job


def test_python_data_sources_read_and_write_each_row_once_when_slots_are_killed(spark: Any, tmp_path: Path) -> None:
    job = submit_data_sources(spark, tmp_path)
    for rows in (1, 8_000):
        wait_for(job, lambda status, rows=rows: _runs_and_archived(status, tmp_path, rows))  # type: ignore[misc]
        kill_a_slot(job)
    wait_for(job, lambda _: all_is_committed(tmp_path))
    job.stop()
    assert job.wait("3min").restarts >= 2
    assert numbers_in(tmp_path / "archive") == ONCE_EACH


def test_python_data_sources_go_on_with_the_next_driver(tmp_path: Path) -> None:
    with driver_of(tmp_path, "submit_until_committed", module=MODULE) as driver:
        kill_driver(driver, lambda: numbers_in(tmp_path / "archive").total() >= 3_000)
    assert run_driver(tmp_path, "submit_until_committed", "latest", module=MODULE) == 0
    assert numbers_in(tmp_path / "archive") == ONCE_EACH


def _runs_and_archived(status: cw.JobStatus, root: Path, rows: int) -> bool:
    return status.state is cw.JobState.RUNNING and numbers_in(root / "archive").total() >= rows

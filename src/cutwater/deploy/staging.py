"""How do the rows of a batch DataFrame get to where slots can read them?

Spark computes the DataFrame on a thread of the driver, each of its tasks writing one file to a staging folder; the
stream starts with the first finished file. Without a folder of the user's choice the files go to a temporary one,
which only a cluster on this machine can see. They are deleted when the driver ends.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from cutwater.connectors.staged import StagedFiles, mark_complete, mark_failed, write_partition
from cutwater.deploy.schemas import arrow_schema
from cutwater.deploy.spark import summary
from cutwater.errors import StorageError


def stage_dataframe(dataframe: Any, staging: str | None) -> StagedFiles:
    """A source over the DataFrame's rows. Spark starts writing at once, in the background."""
    folder = _new_folder(staging)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    schema = arrow_schema(dataframe.schema)
    thread = threading.Thread(target=_write, args=(dataframe, folder, schema), name="cutwater-staging", daemon=True)
    thread.start()
    return StagedFiles(folder, schema)


def _new_folder(staging: str | None) -> str:
    try:
        if staging is not None:
            os.makedirs(staging, exist_ok=True)
        return tempfile.mkdtemp(prefix="cutwater-staged-", dir=staging)
    except OSError as error:
        raise StorageError(
            f"the staging folder {staging!r} can't be written",
            detail=str(error),
            hint="name a folder that the driver and all executors see and may write to",
        ) from error


def _write(dataframe: Any, folder: str, schema: pa.Schema) -> None:
    try:
        rows = dataframe.mapInArrow(partition_writer(folder, schema), "part int").collect()
        mark_complete(folder, len(rows))
    except Exception as error:
        mark_failed(folder, summary(error))


def partition_writer(folder: str, schema: pa.Schema) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """The function for `mapInArrow`: writes one partition and returns its number."""

    def write(batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        write_partition(batches, folder, context.partitionId(), schema=schema)
        yield pa.RecordBatch.from_pydict({"part": pa.array([context.partitionId()], pa.int32())})

    return write

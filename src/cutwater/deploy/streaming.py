"""How does a Structured Streaming query hand its micro-batches to a job?

With `foreachBatch`: Spark's tasks write the rows of a batch to a hidden folder, which is renamed when all are there.
The query keeps its checkpoint beside the batches. If it dies after the renaming, and before it has noted that the batch
is done, it runs the batch again when it is started again: then the folder is there, and nothing is written.
"""

from __future__ import annotations

import os
import shutil
import threading
from typing import Any

import pyarrow as pa

from cutwater.connectors.file_system import file_system_of
from cutwater.connectors.spark.batches import StagedBatches, batch_name, query_failed
from cutwater.deploy.schemas import arrow_schema
from cutwater.deploy.spark import summary
from cutwater.deploy.staging import partition_writer
from cutwater.errors import ConfigurationError


def stage_streaming_dataframe(dataframe: Any, staging: str | None, trigger: dict[str, Any]) -> StagedBatches:
    """A source over the DataFrame's rows. The query starts when the job looks for splits."""
    if not dataframe.isStreaming:
        raise ConfigurationError("the DataFrame is no stream", hint="use env.from_dataframe, or spark.readStream")
    schema = arrow_schema(dataframe.schema)
    return StagedBatches(StreamingQuery(dataframe, schema, trigger), schema, staging=staging)


class StreamingQuery:
    """A `StagingQuery`. Any thread."""

    def __init__(self, dataframe: Any, schema: pa.Schema, trigger: dict[str, Any]) -> None:
        self._dataframe = dataframe
        self._schema = schema
        self._trigger = trigger
        self._lock = threading.Lock()
        self._query: Any = None

    def start(self, folder: str) -> None:
        with self._lock:
            if self._query is None:
                os.makedirs(folder, exist_ok=True)
                writer = self._dataframe.writeStream.option("checkpointLocation", os.path.join(folder, "checkpoint"))
                writer = writer.trigger(**self._trigger) if self._trigger else writer
                self._query = writer.foreachBatch(_stager(folder, self._schema)).start()

    def is_over(self) -> bool:
        with self._lock:
            query = self._query
            if query is None or query.isActive:
                return False
            error = query.exception()
            if error is not None:
                self._query = None  # the next attempt starts it again
                raise query_failed(summary(error)) from None
            return True

    def stop(self) -> None:
        with self._lock:
            query, self._query = self._query, None
        if query is not None:
            threading.Thread(target=query.stop, name="cutwater-query-end", daemon=True).start()


def _stager(folder: str, schema: pa.Schema) -> Any:
    def stage(batch: Any, number: int) -> None:
        target = os.path.join(folder, batch_name(number))
        if os.path.isdir(target):
            return
        hidden = os.path.join(folder, f".{batch_name(number)}")
        shutil.rmtree(hidden, ignore_errors=True)
        os.makedirs(hidden)
        batch.mapInArrow(partition_writer(hidden, schema), "part int").collect()
        os.rename(hidden, target)
        file_system_of(folder).sync_folder(folder)

    return stage

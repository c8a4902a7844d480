"""How is a Python data source of Spark written to?"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from cutwater.connectors.spark.bridge import bridge, checked_class
from cutwater.connectors.spark.messages import MessageSink
from cutwater.errors import ConfigurationError


def spark_data_source(
    data_source: type,
    *,
    schema: pa.Schema,
    options: Mapping[str, str] | None = None,
    staging: str | None = None,
) -> MessageSink:
    """Writes with the `streamWriter` of a `pyspark.sql.datasource.DataSource`.

    Exactly once if its `commit(messages, batchId)` is idempotent in `batchId`, as Spark demands, too. `write(rows)`
    runs in the slots for each epoch, and its commit messages are in the snapshot; `commit` is called in the driver
    when the checkpoint has completed, and after a failure perhaps again with the same messages. Batch ids grow, with
    gaps; an epoch without rows is left out. `abort` is never called: what an attempt that failed has written is known
    to its slots only, and they are gone.

    `schema`: the columns. `options`: what `writeStream.options(…)` would be given. `staging`: a folder that the driver
    sees, for notes about what was committed; left out, the storage of the checkpoints.
    """
    if not isinstance(schema, pa.Schema):
        raise ConfigurationError("schema must be a pyarrow.Schema", detail=f"it is {schema!r}")
    writer = bridge().stream_writer(checked_class(data_source), dict(options or {}), schema)
    return MessageSink(data_source.__name__, writer, schema, staging=staging)

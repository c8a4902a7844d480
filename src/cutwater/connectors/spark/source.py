"""How is a Python data source of Spark read?"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from cutwater.connectors.spark.bridge import bridge, checked_class
from cutwater.connectors.spark.offsets import OffsetSource


def spark_data_source(
    data_source: type, *, options: Mapping[str, str] | None = None, schema: pa.Schema | None = None
) -> OffsetSource:
    """A typed stream from a `pyspark.sql.datasource.DataSource` with a `streamReader` or a `simpleStreamReader`.

    Exactly once: the planned offset is in the snapshot, with every partition that was not read to its end and how many
    of its rows were. So a partition must give the same rows in the same order when it is read again. `commit(end)` is
    called when a completed checkpoint holds everything up to `end`; `stop()` when the job is over.

    `options`: what `spark.readStream.options(…)` would be given. `schema`: left out, the data source's own; one that is
    a DDL string needs an active SparkSession. The class and its partitions must be picklable.
    """
    made = bridge().stream_reader(checked_class(data_source), dict(options or {}), schema)
    return OffsetSource(data_source.__name__, made.reader, made.schema)

"""How does a batch become a pandas DataFrame, and a DataFrame a batch?"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from cutwater.batches import (
    TIME_METADATA,
    Batch,
    ObjectBatch,
    time_column_of,
    times_of,
    with_times,
    without_time_column,
)
from cutwater.connectors.column_formats import as_columns
from cutwater.errors import SchemaError


def is_frame(value: Any) -> bool:
    """Asked by name: pandas is slow to import, and need not be there for jobs without frames."""
    kind = type(value)
    return kind.__name__ == "DataFrame" and kind.__module__.partition(".")[0] == "pandas"


def frame_of(batch: Batch) -> Any:
    """The rows of a typed batch; of Python values, their fields."""
    if not isinstance(batch, ObjectBatch):
        return without_time_column(batch).to_pandas()
    import pandas

    return pandas.DataFrame.from_records([as_columns(value) for value in batch.values])


def batch_of_frame(frame: Any, given: Batch) -> pa.RecordBatch:
    """Its columns, without the index. The event time of the batch that the function was given stays: row by row if
    there are as many rows, else if its column is still there."""
    try:
        table = pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise SchemaError(
            "a DataFrame can't become a batch", detail=str(error), hint="each column needs values of one type"
        ) from error
    batches = table.combine_chunks().to_batches()
    batch: Any = batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)
    if isinstance(given, ObjectBatch):
        return with_times(batch, times_of(given)) if batch.num_rows == given.num_rows else batch
    name = time_column_of(given.schema)
    if (
        name is not None
        and name in batch.schema.names
        and batch.schema.field(name).type.equals(given.schema.field(name).type)
    ):
        return batch.replace_schema_metadata({TIME_METADATA: name.encode()})
    return with_times(batch, times_of(given)) if batch.num_rows == given.num_rows else batch

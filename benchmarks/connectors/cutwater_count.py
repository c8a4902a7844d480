"""Counts messages of a topic per key into another topic, exactly once, with Cutwater."""

from __future__ import annotations

import pyarrow as pa

import cutwater as cw
from benchmarks.connectors.counting_contract import PER_BATCH, PER_RECORD, PER_SECOND, Count, count_from_arguments


def main(given: Count) -> None:
    storage = f"file://{given.scratch}"
    env = cw.Environment(
        parallelism=given.parallelism, checkpoints=cw.Checkpoints(every=f"{given.checkpoint_seconds}s", storage=storage)
    )
    source = cw.sources.kafka(given.servers, given.source, schema=pa.schema([("key", pa.string())]))
    update = {PER_RECORD: "record", PER_BATCH: "batch", PER_SECOND: "1s"}[given.variant]
    counts = env.from_source(source, uid="messages").key_by("key").count(update=update, uid="count")
    named = counts.map_batches(named_n, schema=pa.schema([("key", pa.string()), ("n", pa.int64())]), uid="n")
    named.sink_to(cw.sinks.kafka(given.servers, given.target, key="key", value="json"), uid="counts")
    env.submit("count").wait()


def named_n(counts: pa.RecordBatch) -> pa.RecordBatch:
    """The columns have the names that all systems give them."""
    return pa.RecordBatch.from_arrays([counts.column(0), counts.column(1)], ["key", "n"])


if __name__ == "__main__":
    main(count_from_arguments())

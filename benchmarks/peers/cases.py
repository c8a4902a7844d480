"""Which peers are measured on which workloads, and how fast are they, roughly?

The speeds only choose the number of rows of a first run. Rows of one workload are comparable; where a system gives one
result for each record and another one for each key and batch, the variant says so.
"""

from __future__ import annotations

from benchmarks.subjects import Case, Subject

FLINK_SQL = Subject(
    "Flink SQL", "benchmarks.peers.flink_sql", environment="flink", layout="csv", layout_in_time="csv_striped"
)
FLINK_DATASTREAM = Subject("PyFlink DataStream", "benchmarks.peers.flink_datastream", environment="flink", layout="csv")
SPARK = Subject("Spark", "benchmarks.peers.spark_streaming", environment="spark")
BYTEWAX = Subject("Bytewax", "benchmarks.peers.bytewax_flow", environment="bytewax")
PATHWAY = Subject(
    "Pathway",
    "benchmarks.peers.pathway_run",
    environment="pathway",
    layout="csv_header",
    layout_in_time="csv_header",
    variables={"PATHWAY_THREADS": "2"},
)
POLARS = Subject("Polars", "benchmarks.peers.polars_batch", environment="batch", repeats_itself=True)
DUCKDB = Subject("DuckDB", "benchmarks.peers.duckdb_batch", environment="batch", repeats_itself=True)

PER_RECORD = "per record"
PER_BATCH = "per batch"
THREADS = "per record, threads"
GENERATED = "per record, generated input"
ONE_BATCH = "per batch, one batch"


def peer_cases() -> list[Case]:
    """All of them, by workload."""
    return [
        Case(FLINK_SQL, "W1", 800_000, backend="hashmap", variant=PER_RECORD),
        Case(FLINK_SQL, "W1", 1_000_000, backend="hashmap", variant=GENERATED),
        Case(FLINK_SQL, "W1", 800_000, backend="hashmap", variant=PER_BATCH),
        Case(FLINK_SQL, "W1", 200_000, backend="rocksdb", variant=PER_RECORD),
        Case(FLINK_DATASTREAM, "W1", 20_000, backend="rocksdb", variant=PER_RECORD),
        Case(FLINK_DATASTREAM, "W1", 20_000, backend="rocksdb", variant=THREADS),
        Case(SPARK, "W1", 6_000_000, backend="rocksdb", variant=PER_BATCH),
        Case(SPARK, "W1", 6_000_000, backend="rocksdb", variant=ONE_BATCH),
        Case(BYTEWAX, "W1", 450_000, variant=PER_RECORD),
        Case(PATHWAY, "W1", 700_000, variant=PER_BATCH),
        Case(POLARS, "W1", 60_000_000, checkpoint_seconds=None),
        Case(DUCKDB, "W1", 150_000_000, checkpoint_seconds=None),
        Case(FLINK_SQL, "W2", 450_000, backend="hashmap", variant=PER_RECORD),
        Case(FLINK_SQL, "W2", 400_000, backend="hashmap", variant=PER_BATCH),
        Case(FLINK_SQL, "W2", 120_000, backend="rocksdb", variant=PER_RECORD),
        Case(SPARK, "W2", 1_500_000, backend="rocksdb", variant=PER_BATCH),
        Case(SPARK, "W2", 1_500_000, backend="rocksdb", variant=ONE_BATCH),
        Case(BYTEWAX, "W2", 60_000, variant=PER_RECORD),
        Case(PATHWAY, "W2", 400_000, variant=PER_BATCH),
        Case(POLARS, "W2", 10_000_000, checkpoint_seconds=None),
        Case(DUCKDB, "W2", 17_000_000, checkpoint_seconds=None),
        Case(FLINK_SQL, "W3", 500_000, backend="hashmap"),
        Case(FLINK_SQL, "W3", 400_000, backend="rocksdb"),
        Case(SPARK, "W3", 2_000_000, backend="rocksdb"),
        Case(BYTEWAX, "W3", 80_000),
        Case(PATHWAY, "W3", 120_000),
        Case(POLARS, "W3", 30_000_000, checkpoint_seconds=None),
        Case(DUCKDB, "W3", 45_000_000, checkpoint_seconds=None),
        Case(FLINK_DATASTREAM, "W4", 15_000, backend="rocksdb", variant=PER_RECORD),
        Case(FLINK_DATASTREAM, "W4", 15_000, backend="rocksdb", variant=THREADS),
        Case(SPARK, "W4", 120_000, backend="rocksdb", variant=PER_RECORD),
        Case(BYTEWAX, "W4", 420_000, variant=PER_RECORD),
        Case(PATHWAY, "W4", 450_000, variant=PER_RECORD),
    ]


def is_best_of_its_system(case: Case) -> bool:
    """For a short run: of every system and workload the setting that a user would choose, no variants besides."""
    if case.subject is DUCKDB or case.subject is FLINK_DATASTREAM:
        return False
    if case.subject is FLINK_SQL:
        backend = "rocksdb" if case.workload == "W2" else "hashmap"
        return case.backend == backend and case.variant in ("", PER_RECORD)
    return case.variant in ("", PER_RECORD, PER_BATCH)


def cold_peer_cases() -> list[Case]:
    """Those that run on a Java machine, for the measurement from a cold start."""
    return [
        Case(FLINK_SQL, "W1", 0, backend="hashmap", variant=PER_RECORD),
        Case(FLINK_SQL, "W1", 0, backend="rocksdb", variant=PER_RECORD),
        Case(SPARK, "W1", 0, backend="rocksdb", variant=PER_BATCH),
    ]

"""Jobs from files to files in all forms: slots die, and each record is in the output once."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import duckdb
import fastavro
import pytest

import cutwater as cw
from cutwater.batches import ObjectBatch
from cutwater.connectors.contract import WriterContext
from cutwater.protocol.ids import AttemptNumber, CheckpointId

from .local import CHECKPOINT_EVERY, KillingLauncher

RECORDS = 200
LAYOUTS: list[dict[str, Any]] = [
    {"format": "json", "compression": "gzip"},
    {"format": "csv", "compression": "zstd", "roll_every": "5ms"},
    {"format": "parquet", "roll_every": "5ms", "partition_by": "rest"},
    {"format": "avro", "roll_every": "5ms", "partition_by": [cw.partitions.hour(time="processing"), "rest"]},
]


def run(source: Any, sink: Any, *, seed: int) -> cw.JobResult:
    env = cw.Environment(
        launcher=KillingLauncher(seed=seed, kill_after_checkpoints=(1, 3)),
        parallelism=2,
        checkpoints=cw.Checkpoints(every=CHECKPOINT_EVERY),
        restart=cw.restart.fixed_delay(attempts=1_000, delay="0s"),
    )
    env.from_source(source, uid="in").rebalance().sink_to(sink, uid="out")
    return env.execute("files", require="exactly_once")


def numbers_in(folder: Path, layout: dict[str, Any]) -> list[int]:
    everything = f"{folder}/**/part-*"
    match layout["format"]:
        case "json":
            query = f"from read_json_auto('{everything}')"
        case "csv":
            query = f"from read_csv('{everything}', header=true)"
        case "parquet":
            query = f"from read_parquet('{everything}', hive_partitioning=true)"
        case _:
            paths = [path for path in folder.rglob("part-*") if ".pending" not in path.parts]
            return sorted(record["n"] for path in paths for record in fastavro.reader(path.open("rb")))
    return [number for (number,) in duckdb.sql(f"select n {query} order by n").fetchall()]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("seed", range(2))
def test_each_record_is_in_one_file_though_slots_die(tmp_path: Path, layout: dict[str, Any], seed: int) -> None:
    source = cw.sources.generator(
        lambda index: {"n": index, "rest": index % 3}, count=RECORDS, per_second=5_000, splits=3
    )
    result = run(source, cw.sinks.files(tmp_path, **layout), seed=seed)
    assert result.restarts > 0
    assert numbers_in(tmp_path, layout) == list(range(RECORDS))
    assert os.listdir(tmp_path / ".pending") == []


@pytest.mark.parametrize("layout", [{"format": "json", "compression": "zstd"}, {"format": "avro"}], ids=str)
def test_each_record_of_a_file_is_read_once_though_slots_die(tmp_path: Path, layout: dict[str, Any]) -> None:
    write(cw.sinks.files(tmp_path / "in", **layout))
    source = cw.sources.files(tmp_path / "in", format=layout["format"], split_bytes=500)
    env = cw.Environment(
        launcher=KillingLauncher(seed=1, kill_after_checkpoints=(1,)),
        parallelism=2,
        checkpoints=cw.Checkpoints(every=CHECKPOINT_EVERY),
        restart=cw.restart.fixed_delay(attempts=1_000, delay="0s"),
    )
    sink = cw.sinks.collect()
    env.from_source(source, uid="in").sink_to(sink, uid="out")
    env.execute("files", require="exactly_once")
    assert sorted(record["n"] for record in sink.collected.take()) == list(range(20 * RECORDS))


def write(sink: Any) -> None:
    writer = sink.writer(WriterContext("job", "in", 0, 1, AttemptNumber(0)))
    writer.write(ObjectBatch([{"n": number} for number in range(20 * RECORDS)]))
    writer.commit(writer.prepare(CheckpointId(1)))
    writer.close()

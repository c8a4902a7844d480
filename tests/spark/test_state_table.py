"""What Spark reads of a snapshot is what the job says itself, and a job starts from what Spark has written."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import cutwater as cw

KEYS = 25
RECORDS = 3_000


def key_of(number: int) -> str:
    return f"key-{number % KEYS}"


def count_of(records: int, key: int) -> int:
    return (records - key + KEYS - 1) // KEYS


class Bench:
    """A job that counts per key, with its folders."""

    def __init__(self, spark: Any, root: Path) -> None:
        self.spark = spark
        self.root = root

    def submit(
        self, *, records: int = RECORDS, backend: str = "filesystem", restore: str | None = None, **more: Any
    ) -> cw.JobHandle:
        env = cw.Environment(
            spark=self.spark,
            parallelism=2,
            state_backend=backend,
            checkpoints=cw.Checkpoints(every="200ms", storage=f"{self.root}/checkpoints"),
            inline_state_bytes_max=0,
        )
        source = cw.sources.generator(key_of, count=records, per_second=more.pop("per_second", None), splits=2)
        counts = env.from_source(source, uid="numbers").key_by(lambda key: key).count(uid="count")
        counts.sink_to(cw.sinks.json_lines(f"{self.root}/out"), uid="out")
        return env.submit("counts", restore=restore, **more)

    def output(self) -> dict[str, int]:
        """The highest count of each key."""
        highest: Counter[str] = Counter()
        for path in (self.root / "out").glob("*.jsonl"):
            for line in path.read_text().splitlines():
                key, count = json.loads(line).values()
                highest[key] = max(highest[key], count)
        return dict(highest)

    def savepoint(self, **options: Any) -> str:
        """After some records; the job has ended then."""
        job = self.submit(per_second=2_000, **options)
        wait_for_output(job)
        path = job.stop(savepoint=str(self.root / "savepoints"), timeout="60s")
        job.wait("60s")
        assert path is not None
        return path

    def table(self, path: str, **options: str) -> Any:
        reader = self.spark.read.format("cutwater").option("snapshot", path).option("operator", "count")
        return reader.option("state", "count").options(**options).load()


def wait_for_output(job: cw.JobHandle) -> None:
    deadline = time.monotonic() + 90
    while job.status().checkpoints_completed < 2:
        assert time.monotonic() < deadline, job.status()
        assert not job.status().state.terminal, job.status()
        time.sleep(0.01)


@pytest.fixture
def bench(spark: Any, tmp_path: Path) -> Bench:
    return Bench(spark, tmp_path)


@pytest.mark.parametrize("backend", ["filesystem", "rocksdb"])
def test_one_query_over_a_savepoint_gives_the_answer_of_the_job(bench: Bench, backend: str) -> None:
    path = bench.savepoint(backend=backend)
    bench.table(path).createOrReplaceTempView("counts")
    rows = bench.spark.sql("SELECT key, value FROM counts ORDER BY key").collect()
    assert {row.key: row.value for row in rows} == bench.output()
    assert dict(bench.table(path).dtypes) == {"key_group": "int", "key": "string", "value": "bigint"}


@pytest.mark.parametrize("backend", ["filesystem", "rocksdb"])
def test_a_retained_checkpoint_is_a_table_too(bench: Bench, backend: str) -> None:
    bench.submit(backend=backend).wait("90s")
    newest = max((bench.root / "checkpoints/counts").glob("chk-*"), key=lambda path: int(path.name[4:]))
    rows = bench.table(str(newest)).collect()
    assert {row.key: row.value for row in rows} == {f"key-{key}": count_of(RECORDS, key) for key in range(KEYS)}


def test_a_job_goes_on_from_a_corrected_table(bench: Bench) -> None:
    path = bench.savepoint()
    before = bench.output()
    corrected = bench.table(path).selectExpr("key", "IF(key = 'key-3', value + 1000, value) AS value")
    writer = corrected.write.format("cutwater").option("snapshot", f"{bench.root}/corrected").option("base", path)
    writer.option("operator", "count").option("state", "count").mode("append").save()
    bench.submit(restore=f"{bench.root}/corrected").wait("90s")
    after = bench.output()
    assert before["key-3"] < 1000
    expected = {f"key-{key}": count_of(RECORDS, key) + (1000 if key == 3 else 0) for key in range(KEYS)}
    assert after == expected
    rows = bench.table(path).where("key = 'key-3'").collect()
    assert [row.value for row in rows] == [before["key-3"]], "the old savepoint is as it was"


def test_a_new_job_starts_from_a_table_that_spark_made(bench: Bench) -> None:
    history = bench.spark.range(KEYS).selectExpr("concat('key-', id) AS key", "id * 100 AS value")
    writer = history.write.format("cutwater").option("snapshot", f"{bench.root}/bootstrap")
    writer.option("operator", "count").option("state", "count").mode("append").save()
    bench.submit(restore=f"{bench.root}/bootstrap").wait("90s")
    assert bench.output() == {f"key-{key}": key * 100 + count_of(RECORDS, key) for key in range(KEYS)}


def test_a_state_that_is_not_there_is_answered_with_those_that_are(bench: Bench) -> None:
    path = bench.savepoint()
    reader = bench.spark.read.format("cutwater").option("snapshot", path).option("operator", "cuont")
    with pytest.raises(Exception, match="it has count/count"):
        reader.option("state", "count").load().collect()


def test_an_operator_without_state_is_refused_unless_its_state_may_be_dropped(bench: Bench) -> None:
    path = bench.savepoint()

    def changed() -> cw.Environment:
        env = cw.Environment(
            spark=bench.spark, parallelism=2, checkpoints=cw.Checkpoints(storage=f"{bench.root}/checkpoints")
        )
        source = cw.sources.generator(key_of, count=RECORDS, splits=2)
        words = env.from_source(source, uid="numbers").key_by(lambda key: key)
        words.count(uid="another-count").sink_to(cw.sinks.json_lines(f"{bench.root}/out2"), uid="out2")
        return env

    with pytest.raises(cw.errors.GraphError, match='"count"'):
        changed().execute("changed", restore=path)
    result = changed().execute("changed", restore=path, allow_non_restored_state=True)
    assert result.state is cw.JobState.FINISHED

"""What a newcomer tries in the first hour, without Spark."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import cutwater as cw
from cutwater.api import environment
from cutwater.testing.harness import LocalLauncher

WORDS = ["to", "be", "or", "not", "to", "be"]
ORDERS = pa.schema([("city", pa.string()), ("day", pa.string()), ("cents", pa.int64())])
ROWS = [("Bern", "mon", 5), ("Rome", "mon", 3), ("Bern", "tue", 2)]


@pytest.fixture
def env() -> cw.Environment:
    return cw.Environment(parallelism=1, launcher=LocalLauncher())


def values(env: cw.Environment) -> cw.DataStream:
    return env.from_collection([dict(zip(ORDERS.names, row, strict=True)) for row in ROWS])


def typed(env: cw.Environment) -> cw.DataStream:
    return env.from_collection(ROWS).with_schema(ORDERS)


# Shapes.


@pytest.mark.parametrize("stream", [values, typed])
def test_a_running_count_has_one_shape_on_values_and_on_columns(
    env: cw.Environment, stream: Callable[[cw.Environment], cw.DataStream]
) -> None:
    results = stream(env).key_by("city").count().execute_and_collect()
    assert [(row.city, row.count) for row in results] == [("Bern", 1), ("Rome", 1), ("Bern", 2)]
    assert results == [("Bern", 1), ("Rome", 1), ("Bern", 2)]


@pytest.mark.parametrize("stream", [values, typed])
@pytest.mark.parametrize("update", ["record", "batch", "1s"])
def test_several_columns_of_a_key_are_columns_of_the_result(
    env: cw.Environment, stream: Callable[[cw.Environment], cw.DataStream], update: Any
) -> None:
    results = stream(env).key_by("city", "day").sum("cents", update=update).execute_and_collect()
    assert sorted(results) == [("Bern", "mon", 5), ("Bern", "tue", 2), ("Rome", "mon", 3)]
    assert results[0]._fields == ("city", "day", "sum")


def test_the_key_of_a_function_is_called_key(env: cw.Environment) -> None:
    (*_, last) = env.from_collection(WORDS).key_by(str).count().execute_and_collect()
    assert last._asdict() == {"key": "be", "count": 2}


class Longest:
    def create_accumulator(self) -> str:
        return ""

    def add(self, value: str, accumulator: str) -> str:
        return max(value, accumulator, key=len)

    def get_result(self, accumulator: str) -> str:
        return accumulator


def test_an_aggregate_of_ones_own_has_a_field_result(env: cw.Environment) -> None:
    (*_, last) = env.from_collection(WORDS).key_by(len).aggregate(Longest()).execute_and_collect()
    assert last._asdict() == {"key": 2, "result": "be"}


def test_results_are_objects_in_json(env: cw.Environment, tmp_path: Path) -> None:
    env.from_collection(["a"]).key_by(str).count().sink_to(cw.sinks.json_lines(tmp_path / "out"))
    env.execute()
    (file,) = (tmp_path / "out").glob("*.jsonl")
    assert json.loads(file.read_text()) == {"key": "a", "count": 1}


@pytest.mark.parametrize("keys", [("city", "day"), (["city", "day"],), (("city", "day"),)])
def test_a_key_of_several_columns_may_be_a_list(env: cw.Environment, keys: Any) -> None:
    assert typed(env).key_by(*keys).count().schema.names == ["city", "day", "count"]  # type: ignore[union-attr]


@pytest.mark.parametrize(("keys", "key"), [((0,), "a"), ((0, 1), ("a", "x")), ((-1,), 7)])
def test_a_key_may_be_a_position_of_a_tuple_or_list(env: cw.Environment, keys: Any, key: Any) -> None:
    results = env.from_collection([("a", "x", 7), ["a", "x", 7]]).key_by(*keys).count().execute_and_collect()
    assert results == [(key, 1), (key, 2)]


def test_a_position_of_a_typed_stream_is_a_column(env: cw.Environment) -> None:
    counted = typed(env).key_by(0).count()
    assert counted.schema is not None
    assert counted.schema.names == ["city", "count"]
    with pytest.raises(cw.errors.GraphError, match="no column at position 3"):
        typed(env).key_by(3)


# Looking.


def test_print_writes_each_record_behind_its_prefix(env: cw.Environment, capsys: pytest.CaptureFixture[str]) -> None:
    env.from_collection([1, 2]).print("numbers")
    env.execute()
    assert capsys.readouterr().out == "numbers> 1\nnumbers> 2\n"


def test_show_draws_a_table_and_leaves_the_job_as_it_was(
    env: cw.Environment, capsys: pytest.CaptureFixture[str]
) -> None:
    counts = env.from_collection(WORDS).key_by(str).count()
    counts.show(3)
    assert capsys.readouterr().out.splitlines() == [
        "+---+-----+",
        "|key|count|",
        "+---+-----+",
        "| to|    1|",
        "| be|    1|",
        "| or|    1|",
        "+---+-----+",
        "the first 3 records",
    ]
    assert "preview" not in str(env.explain())


def test_show_ends_on_a_source_without_an_end(env: cw.Environment, capsys: pytest.CaptureFixture[str]) -> None:
    env.from_source(cw.sources.generator(lambda index: {"n": index}, per_second=10, splits=1)).show(2)
    assert capsys.readouterr().out.splitlines()[3:5] == ["|0|", "|1|"]


def test_show_tells_of_a_function_that_fails(env: cw.Environment) -> None:
    with pytest.raises(cw.errors.JobFailedError, match="ZeroDivisionError"):
        env.from_collection([0]).map(lambda n: 1 / n).show()


def test_nothing_to_show_is_an_empty_table(env: cw.Environment, capsys: pytest.CaptureFixture[str]) -> None:
    env.from_collection([]).show()
    typed(env).filter(cw.col("cents") > 100).show()
    assert "|city|day|cents|" in capsys.readouterr().out


@pytest.mark.parametrize("parallelism", [1, 3])
def test_limit_lets_so_many_records_through(parallelism: int, tmp_path: Path) -> None:
    env = cw.Environment(parallelism=parallelism, launcher=LocalLauncher())
    env.from_collection(range(100)).limit(7).sink_to(cw.sinks.json_lines(tmp_path / "out"))
    env.execute()
    assert sum(len(file.read_text().splitlines()) for file in (tmp_path / "out").glob("*.jsonl")) == 7


def test_a_limited_stream_can_be_collected_from_a_source_without_an_end(env: cw.Environment) -> None:
    endless = env.from_source(cw.sources.generator(lambda index: index, splits=1))
    assert endless.limit(3).execute_and_collect() == [0, 1, 2]
    assert endless.limit(3).map(str).limit(2).execute_and_collect() == ["0", "1"]


@pytest.mark.parametrize("count", [0, -1, True, 1.5])
def test_a_limit_is_a_number_of_records(env: cw.Environment, count: Any) -> None:
    with pytest.raises(cw.errors.ConfigurationError):
        env.from_collection([1]).limit(count)
    with pytest.raises(cw.errors.ConfigurationError):
        env.from_collection([1]).show(count)


# Pandas.


def test_a_frame_goes_in_and_comes_out(env: cw.Environment) -> None:
    frame = pd.DataFrame({"city": ["Bern", "Rome"], "cents": [5, 3]})
    found = env.from_pandas(frame).filter(cw.col("cents") > 3).to_pandas()
    pd.testing.assert_frame_equal(found, pd.DataFrame({"city": ["Bern"], "cents": [5]}))


def test_results_on_values_have_the_columns_of_their_names(env: cw.Environment) -> None:
    found = env.from_collection(["a", "b"]).key_by(str).count().to_pandas()
    pd.testing.assert_frame_equal(found, pd.DataFrame({"key": ["a", "b"], "count": [1, 1]}))
    assert list(env.from_collection([1, 2]).to_pandas().columns) == ["value"]


def test_a_frame_of_no_records_still_has_its_columns(env: cw.Environment) -> None:
    assert list(typed(env).filter(cw.col("cents") > 100).to_pandas().columns) == ORDERS.names


def test_a_frame_of_a_source_without_an_end_needs_a_limit(env: cw.Environment) -> None:
    endless = env.from_source(cw.sources.generator(lambda index: index, splits=1))
    with pytest.raises(cw.errors.GraphError, match="has no end"):
        endless.map(str).to_pandas()
    assert len(endless.limit(3).to_pandas()) == 3


def test_what_is_no_frame_is_refused(env: cw.Environment) -> None:
    with pytest.raises(cw.errors.ConfigurationError, match=r"not builtins\.list"):
        env.from_pandas([1])  # type: ignore[arg-type]


@pytest.mark.parametrize("stream", [values, typed])
def test_map_batches_works_on_frames(env: cw.Environment, stream: Callable[[cw.Environment], cw.DataStream]) -> None:
    def doubled(frame: pd.DataFrame) -> pd.DataFrame:
        return frame.assign(cents=frame.cents * 2)[["city", "cents"]]

    found = stream(env).map_batches(doubled, format="pandas").execute_and_collect()
    assert found == [("Bern", 10), ("Rome", 6), ("Bern", 4)]
    assert found[0].cents == 10


def test_a_frame_may_be_returned_for_any_batch_and_keeps_event_time(env: cw.Environment) -> None:
    timed = typed(env).assign_timestamps(lambda row: row.cents * 1_000, cw.watermarks.bounded("10s"))
    frames = timed.map_batches(lambda batch: batch.to_pandas()[["city"]], schema=pa.schema([("city", pa.string())]))
    windows = frames.key_by("city").window(cw.tumbling("4 seconds")).count().execute_and_collect()
    assert sorted((row.city, row.window_start.second, row.count) for row in windows) == [
        ("Bern", 0, 1),
        ("Bern", 4, 1),
        ("Rome", 0, 1),
    ]


# CSV.


def test_csv_without_a_header_and_with_another_delimiter(env: cw.Environment, tmp_path: Path) -> None:
    (tmp_path / "orders.csv").write_text("Bern;mon;5\nRome;mon;3\n")
    source = cw.sources.csv(tmp_path / "orders.csv", header=False, delimiter=";", schema=ORDERS)
    assert env.from_source(source).select("cents", "city").execute_and_collect() == [(5, "Bern"), (3, "Rome")]
    unnamed = cw.sources.csv(tmp_path / "orders.csv", header=False, delimiter=";")
    assert unnamed.schema is not None
    assert [(field.name, str(field.type)) for field in unnamed.schema] == [
        ("c0", "string"),
        ("c1", "string"),
        ("c2", "int64"),
    ]
    assert env.from_source(unnamed).key_by("c0").sum("c2").execute_and_collect() == [("Bern", 5), ("Rome", 3)]


def test_rows_of_a_csv_file_without_header_that_cannot_be_read_are_told_by_their_number(
    env: cw.Environment, tmp_path: Path
) -> None:
    (tmp_path / "orders.csv").write_text("Bern;mon;5\nRome;mon\nRome;mon;x\nBern;tue;2\n")
    source = cw.sources.csv(tmp_path / "orders.csv", header=False, delimiter=";", schema=ORDERS)
    stream = env.from_source(source, on_error="dead_letter")
    letters = stream.side_output("errors").execute_and_collect()
    assert [letter.position.rpartition(" ")[2] for letter in letters] == ["2", "3"]


def test_csv_is_written_without_a_header_and_with_another_delimiter(env: cw.Environment, tmp_path: Path) -> None:
    typed(env).sink_to(cw.sinks.csv(tmp_path / "out", header=False, delimiter="\t"))
    env.execute()
    (file,) = (tmp_path / "out").glob("*.csv")
    assert file.read_text().splitlines() == ['"Bern"\t"mon"\t5', '"Rome"\t"mon"\t3', '"Bern"\t"tue"\t2']


@pytest.mark.parametrize("delimiter", ["", ";;", '"', "\n", "–", None])
def test_what_cannot_separate_cells_is_refused(delimiter: Any, tmp_path: Path) -> None:
    with pytest.raises(cw.errors.ConfigurationError, match="delimiter"):
        cw.sources.csv(tmp_path / "x.csv", delimiter=delimiter, schema=ORDERS)
    with pytest.raises(cw.errors.ConfigurationError, match="delimiter"):
        cw.sinks.csv(tmp_path / "x", delimiter=delimiter)


def test_only_csv_has_a_header(tmp_path: Path) -> None:
    with pytest.raises(cw.errors.ConfigurationError, match="takes no header"):
        cw.sources.files(tmp_path / "*.txt", header=False)
    with pytest.raises(cw.errors.ConfigurationError, match="takes no header"):
        cw.sinks.files(tmp_path, format="json", delimiter=";")


# Without Spark.


def test_a_local_job_writes_real_files_and_says_once_that_it_is_no_cluster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    environment._say_that_it_is_local.cache_clear()
    for number in range(2):
        env = cw.Environment(local=True, parallelism=2)
        (
            env.from_source(cw.sources.generator(lambda index: index % 3, count=30), uid="numbers")
            .key_by(lambda number: number)
            .count(update="batch", uid="count")
            .sink_to(cw.sinks.json_lines(tmp_path / str(number)), uid="out")
        )
        assert env.execute("thirds").state is cw.JobState.FINISHED
        lines = [json.loads(line) for file in (tmp_path / str(number)).glob("*.jsonl") for line in file.open()]
        assert {line["key"]: line["count"] for line in lines} == {0: 10, 1: 10, 2: 10}
    assert capsys.readouterr().err.count("not on a cluster") == 1


def test_a_local_job_can_be_restored_from_what_it_kept(tmp_path: Path) -> None:
    env = cw.Environment(local=True, parallelism=1, checkpoints=cw.Checkpoints(storage=str(tmp_path / "kept")))
    env.from_collection(["a"], uid="in").key_by(str).count(uid="count").sink_to(cw.sinks.discard(), uid="out")
    env.execute("counts")
    assert env.execute("counts", restore="latest").state is cw.JobState.FINISHED


def test_a_local_job_needs_an_input_that_ends() -> None:
    env = cw.Environment(local=True)
    endless = env.from_source(cw.sources.generator(lambda index: index, splits=1), uid="numbers")
    assert endless.limit(2).execute_and_collect() == [0, 1]
    endless.sink_to(cw.sinks.discard())
    with pytest.raises(cw.errors.GraphError, match=r"(?s)input that ends.*numbers.*show"):
        env.execute()


def test_a_local_job_has_no_spark() -> None:
    with pytest.raises(cw.errors.ConfigurationError, match="needs no Spark"):
        cw.Environment(local=True, spark=object())

"""What a newcomer tries in the first hour, on a real Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import cutwater as cw


@pytest.fixture
def env(spark: Any) -> cw.Environment:
    return cw.Environment(spark=spark, parallelism=2)


def endless(env: cw.Environment) -> cw.DataStream[dict[str, int]]:
    return env.from_source(cw.sources.generator(lambda index: {"n": index % 7}, per_second=500, splits=2))


def test_show_ends_on_a_source_without_an_end(env: cw.Environment, capsys: pytest.CaptureFixture[str]) -> None:
    endless(env).key_by("n").count().show(5)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "|n|count|"
    assert len(lines) == 5 + 4 + 1


def test_show_shows_what_has_come_when_the_time_is_over(
    env: cw.Environment, capsys: pytest.CaptureFixture[str]
) -> None:
    endless(env).filter(lambda record: record["n"] > 7).show(5, timeout="1 second")
    assert capsys.readouterr().out.splitlines()[1] == "|value|"


def test_a_limited_stream_becomes_a_frame(env: cw.Environment) -> None:
    frame = endless(env).limit(50).to_pandas()
    assert list(frame.columns) == ["n"]
    assert len(frame) == 50


def test_a_function_that_fails_is_told_by_a_preview(env: cw.Environment) -> None:
    with pytest.raises(cw.errors.JobFailedError, match="ZeroDivisionError"):
        endless(env).map(lambda record: 1 / record["n"]).show(10_000)


def test_frames_go_in_through_functions_on_frames_and_come_out(env: cw.Environment) -> None:
    frame = pd.DataFrame({"city": ["Bern", "Rome", "Bern"], "cents": [5, 3, 2]})
    doubled = env.from_pandas(frame).map_batches(lambda part: part.assign(cents=part.cents * 2), format="pandas")
    found = doubled.to_pandas().sort_values("cents").reset_index(drop=True)
    pd.testing.assert_frame_equal(found, pd.DataFrame({"city": ["Bern", "Rome", "Bern"], "cents": [4, 6, 10]}))


def test_results_are_rows_between_tasks_and_objects_in_json(env: cw.Environment, tmp_path: Path) -> None:
    words = env.from_collection(["to", "be", "or", "not", "to", "be"] * 50, uid="words")
    counts = words.key_by(str).count(uid="counts")
    # Sent by hash to other tasks, where the names must arrive, too.
    most = counts.key_by(lambda row: row.key[0]).max(lambda row: row.count, uid="most")
    most.sink_to(cw.sinks.json_lines(tmp_path / "out"), uid="out")
    env.execute("shapes")
    rows = [json.loads(line) for file in (tmp_path / "out").glob("*.jsonl") for line in file.open()]
    assert {row["key"]: row["max"] for row in sorted(rows, key=lambda row: row["max"])} == {
        "t": 100,
        "b": 100,
        "o": 50,
        "n": 50,
    }

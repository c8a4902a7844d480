"""Which sources go on without what they can't decode, and what follows from that for the graph?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cutwater import col, sources, watermarks
from cutwater.api.dataflow import SourceBuild
from cutwater.api.environment import Environment
from cutwater.api.narrowing import narrow_sources
from cutwater.errors import ConfigurationError, GraphError
from cutwater.operators.event_time import AssignTimestampsOperator

SCHEMA = pa.schema([("n", pa.int64()), ("s", pa.string())])


@pytest.fixture
def csv(tmp_path: Path) -> Any:
    (tmp_path / "a.csv").write_text("n,s\n1,a\n")
    return sources.files(tmp_path / "a.csv", format="csv", schema=SCHEMA)


def narrowed(env: Environment) -> SourceBuild:
    build = narrow_sources(env._dataflow.graph).nodes["in"].build
    assert isinstance(build, SourceBuild)
    return build


@pytest.mark.parametrize("source", [sources.collection([1]), sources.generator(int), sources.socket("h", 1)])
def test_a_source_that_decodes_nothing_refuses(source: Any) -> None:
    with pytest.raises(ConfigurationError, match='on_error="skip" is of no use'):
        Environment().from_source(source, on_error="skip")


def test_a_policy_that_is_none_is_refused(csv: Any) -> None:
    with pytest.raises(ConfigurationError, match="on_error of from_source can't be 'ignore'"):
        Environment().from_source(csv, on_error="ignore")  # type: ignore[arg-type]


def test_only_dead_letters_have_a_side_output(csv: Any) -> None:
    with pytest.raises(GraphError, match='no side output "errors"'):
        Environment().from_source(csv, on_error="skip").side_output("errors")


def test_who_reads_dead_letters_does_not_keep_the_source_from_leaving_columns_out(csv: Any) -> None:
    env = Environment()
    rows = env.from_source(csv, on_error="dead_letter", uid="in")
    rows.select(col("s")).map(str)
    rows.side_output("errors").map(str)
    assert narrowed(env).source.schema.names == ["s"]
    assert narrowed(env).on_error == "dead_letter"


def test_where_only_dead_letters_are_read_all_columns_are(csv: Any) -> None:
    env = Environment()
    env.from_source(csv, on_error="dead_letter", uid="in").side_output("errors").map(str)
    assert narrowed(env).source.schema.names == ["n", "s"]


def test_timestamps_of_dead_letters_are_not_the_sources(csv: Any) -> None:
    env = Environment()
    letters = env.from_source(csv, on_error="dead_letter", uid="in").side_output("errors")
    letters.assign_timestamps(lambda letter: 0, watermarks.monotonous(), uid="times")
    assert isinstance(env._dataflow.graph.nodes["times"].build(), AssignTimestampsOperator)


def test_a_source_keeps_its_policy_when_it_assigns_timestamps(csv: Any) -> None:
    env = Environment()
    rows = env.from_source(csv, on_error="skip", uid="in")
    rows.assign_timestamps("n", watermarks.monotonous(), unit="ms").select(col("s"))
    assert narrowed(env).on_error == "skip"

"""Is what can't work refused on the line that asked for it?"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from cutwater.api import watermarks
from cutwater.api.environment import Environment
from cutwater.connectors import sources
from cutwater.connectors.generator import GeneratorSource
from cutwater.errors import BadTimestampError, ConfigurationError
from cutwater.operators.event_time import AssignTimestampsOperator
from cutwater.operators.source import ReaderOperator


def numbers(env: Environment) -> Any:
    return env.from_source(sources.generator(int, count=3), uid="numbers")


def built(env: Environment, uid: str) -> Any:
    return env._dataflow.graph.nodes[uid].build()


def test_a_source_assigns_the_timestamps_of_its_own_stream() -> None:
    env = Environment()
    numbers(env).assign_timestamps(int, watermarks.bounded("5s", max_drift="1min", group="g"))
    assert list(env._dataflow.graph.nodes) == ["numbers"]
    source = built(env, "numbers")
    assert isinstance(source, ReaderOperator)
    assert source.alignment == ("g", 60_000)


@pytest.mark.parametrize("how", ["mapped", "spread", "assigned before", "united"])
def test_anywhere_else_an_operator_does(how: str) -> None:
    env = Environment()
    stream = numbers(env)
    if how == "mapped":
        stream = stream.map(abs)
    elif how == "spread":
        stream = stream.rebalance()
    elif how == "united":
        stream = stream.union(env.from_collection([1]))
    else:
        stream = stream.assign_timestamps(abs, watermarks.monotonous())
    stream.assign_timestamps(int, watermarks.monotonous(), uid="again")
    assert isinstance(built(env, "again"), AssignTimestampsOperator)


@pytest.mark.parametrize("strategy", [watermarks.injected(), watermarks.monotonous(max_drift="1s")])
def test_what_only_a_source_can_do_is_refused_elsewhere(strategy: Any) -> None:
    with pytest.raises(ConfigurationError, match="this stream is no source's own"):
        numbers(Environment()).map(abs).assign_timestamps(int, strategy)


@pytest.mark.parametrize("setting", [{"parallelism": 2}, {"chaining": False}])
def test_a_source_has_no_second_parallelism(setting: Any) -> None:
    with pytest.raises(ConfigurationError, match="of its own on a source's own stream"):
        numbers(Environment()).assign_timestamps(int, watermarks.monotonous(), **setting)


def test_an_unknown_setting_is_refused_on_a_source_too() -> None:
    with pytest.raises(ConfigurationError, match="no option 'paralelism'"):
        numbers(Environment()).assign_timestamps(int, watermarks.monotonous(), paralelism=2)


@pytest.mark.parametrize(
    "call",
    [
        lambda: watermarks.bounded(-1),
        lambda: watermarks.bounded("soon"),
        lambda: watermarks.monotonous(idle_after=-1),
        lambda: watermarks.monotonous(idle_afer="1s"),  # type: ignore[call-arg]
        lambda: watermarks.monotonous(group=5),  # type: ignore[arg-type]
        lambda: watermarks.monotonous(bad_timestamps="ignore"),  # type: ignore[arg-type]
        lambda: watermarks.monotonous(max_drift=None),  # type: ignore[arg-type]
        lambda: watermarks.custom("no class"),  # type: ignore[arg-type]
    ],
)
def test_a_strategy_that_makes_no_sense_is_refused(call: Any) -> None:
    with pytest.raises(ConfigurationError):
        call()


@pytest.mark.parametrize("strategy", [None, "bounded", watermarks.monotonous])
def test_what_is_no_strategy_is_refused(strategy: Any) -> None:
    with pytest.raises(ConfigurationError, match="is no watermark strategy"):
        numbers(Environment()).assign_timestamps(int, strategy)


def test_max_ahead_may_be_nothing_at_all() -> None:
    strategies = [watermarks.monotonous(), watermarks.monotonous(max_ahead=None), watermarks.monotonous(max_ahead="1s")]
    assert [strategy.max_ahead_ms for strategy in strategies] == [86_400_000, None, 1000]


def test_a_typed_stream_without_such_a_column_is_refused_at_once() -> None:
    class Typed(GeneratorSource):
        schema = pa.schema([("at", pa.timestamp("us")), ("n", pa.int64())])

    def typed() -> Any:
        return Environment().from_source(Typed(int, 1, None, 1))

    with pytest.raises(BadTimestampError, match='no column "time"'):
        typed().assign_timestamps("time", watermarks.monotonous())
    with pytest.raises(BadTimestampError, match='column "n" is no timestamp'):
        typed().assign_timestamps("n", watermarks.monotonous())
    assert typed().assign_timestamps("n", watermarks.monotonous(), unit="s").schema.names == ["at", "n", "__time"]

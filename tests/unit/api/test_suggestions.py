"""Does a name of PySpark, PyFlink or pandas lead to ours?"""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import cutwater as cw

from .launchers import FakeLauncher


@pytest.fixture
def env() -> cw.Environment:
    return cw.Environment(launcher=FakeLauncher())


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("groupBy", "key_by"),
        ("group_by", "key_by"),
        ("where", "filter"),
        ("withColumn", "with_columns"),
        ("selectExpr", "select"),
        ("flatMap", "flat_map"),
        ("toPandas", "to_pandas"),
        ("writeStream", "sink_to"),
        ("foreachBatch", "for_each_epoch"),
        ("withWatermark", "assign_timestamps"),
        ("count", r"key_by\(.*\)\.count"),
        ("agg", r"key_by\(.*\)\.aggregate"),
        ("execute", r"env\.execute"),
        ("flter", "filter"),
    ],
)
def test_a_stream_says_what_was_meant(env: cw.Environment, name: str, hint: str) -> None:
    with pytest.raises(AttributeError, match=rf"(?s)a DataStream has no {name}\b.*did you mean .*{hint}"):
        getattr(env.from_collection([1]), name)


@pytest.mark.parametrize(
    ("name", "hint"), [("agg", "aggregate"), ("avg", "mean"), ("map", "before key_by"), ("sink_to", r"count\(\)")]
)
def test_so_does_a_keyed_stream(env: cw.Environment, name: str, hint: str) -> None:
    with pytest.raises(AttributeError, match=rf"(?s)a KeyedStream has no {name}\b.*{hint}"):
        getattr(env.from_collection([1]).key_by(str), name)


def test_so_do_windows_connected_streams_and_environments(env: cw.Environment) -> None:
    stream = env.from_collection([1])
    windows: Any = stream.key_by(str).window(cw.count_window(2))
    with pytest.raises(AttributeError, match="late_output"):
        windows.sideOutputLateData("late")
    connected: Any = stream.connect(stream)
    with pytest.raises(AttributeError, match="map1"):
        connected.map(str)
    unknown: Any = env
    with pytest.raises(AttributeError, match=r"(?s)an Environment has no readStream.*from_source"):
        _ = unknown.readStream


def test_a_name_that_nobody_knows_is_answered_with_those_that_there_are(env: cw.Environment) -> None:
    unknown: Any = env.from_collection([1])
    with pytest.raises(cw.errors.UserError, match=r"it has .*key_by"):
        unknown.zzz()


def test_names_of_protocols_are_just_missing(env: cw.Environment) -> None:
    stream = env.from_collection([1])
    assert not hasattr(stream, "_ipython_canary_method_should_not_exist_")
    assert not hasattr(stream, "groupBy")
    assert copy.copy(stream.key_by(str))._key == stream.key_by(str)._key
    windows = stream.key_by(str).window(cw.count_window(2))
    assert copy.copy(windows) == windows
    error = pickle.loads(pickle.dumps(cw.errors.UnknownOperationError("a", hint="b")))
    assert (error.fact, error.hint) == ("a", "b")

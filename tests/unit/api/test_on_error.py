"""Which operations take on_error, what do they refuse, and what does a job with dead letters say of itself?"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import cutwater as cw
from cutwater.batches import ObjectBatch
from cutwater.connectors.file_formats import JsonLinesEncoder
from cutwater.errors import ConfigurationError, GraphError
from cutwater.testing.harness import LocalLauncher

SCHEMA = pa.schema([("n", pa.int64())])
TIMES = cw.watermarks.monotonous()


class Both:
    def process1(self, record: Any, context: Any) -> Any:
        return [10 // record]

    process2 = process1


def eighth(record: Any, *_: Any) -> Any:
    return 8 // getattr(record, "n", record)


def emit_eighth(record: Any, context: Any) -> Any:
    yield eighth(record)


OPERATIONS: dict[str, Callable[..., Any]] = {
    "map": lambda stream, **options: stream.map(eighth, **options),
    "flat_map": lambda stream, **options: stream.flat_map(lambda record: [eighth(record)], **options),
    "filter": lambda stream, **options: stream.filter(eighth, **options),
    "process": lambda stream, **options: stream.process(emit_eighth, **options),
    "keyed process": lambda stream, **options: stream.key_by(str).process(emit_eighth, **options),
    "connect": lambda stream, **options: stream.connect(stream).process(Both(), **options),
    "key_by": lambda stream, **options: stream.key_by(eighth, **options),
    "assign_timestamps": lambda stream, **options: stream.rebalance().assign_timestamps(eighth, TIMES, **options),
}


def numbers(*values: int, **options: Any) -> cw.DataStream:
    return cw.Environment(launcher=LocalLauncher(), **options).from_collection(list(values))


@pytest.mark.parametrize("operation", OPERATIONS)
def test_what_is_no_policy_is_refused(operation: str) -> None:
    with pytest.raises(ConfigurationError, match=r"on_error of .* can't be 'ignore'") as refused:
        OPERATIONS[operation](numbers(1), on_error="ignore")
    assert refused.value.detail
    assert '"dead_letter"' in refused.value.hint


@pytest.mark.parametrize("operation", OPERATIONS)
def test_letters_come_out_of_the_side_output_errors(operation: str) -> None:
    stream = OPERATIONS[operation](numbers(4, 0, 2), on_error="dead_letter")
    records = [letter.record for letter in stream.side_output("errors").execute_and_collect()]
    assert records == [0] * (2 if operation == "connect" else 1)


@pytest.mark.parametrize("policy", ["fail", "skip"])
@pytest.mark.parametrize("operation", ["map", "flat_map", "filter", "key_by", "assign_timestamps"])
def test_without_dead_letters_there_is_no_such_side_output(operation: str, policy: str) -> None:
    stream = OPERATIONS[operation](numbers(1), on_error=policy)
    with pytest.raises(GraphError, match='can have no side output "errors"') as refused:
        stream.side_output("errors")
    assert 'on_error="dead_letter"' in refused.value.hint


@pytest.mark.parametrize("policy", ["skip", "dead_letter"])
@pytest.mark.parametrize(
    "write",
    [
        lambda stream, policy: stream.filter(cw.col("n") > 0, on_error=policy),
        lambda stream, policy: stream.key_by("n", on_error=policy),
        lambda stream, policy: stream.assign_timestamps("n", TIMES, unit="ms", on_error=policy),
    ],
    ids=["filter", "key_by", "assign_timestamps"],
)
def test_what_calls_no_function_refuses_to_go_on(write: Callable[..., Any], policy: str) -> None:
    typed = numbers(1).map(lambda n: (n,)).with_schema(SCHEMA)
    with pytest.raises(ConfigurationError, match="is of no use"):
        write(typed, policy)


def test_a_sources_own_timestamps_refuse_to_go_on() -> None:
    with pytest.raises(ConfigurationError, match="source's own stream") as refused:
        numbers(1).assign_timestamps(eighth, TIMES, on_error="skip")
    assert "bad_timestamps" in refused.value.hint


def test_map_batches_has_no_such_option() -> None:
    with pytest.raises(ConfigurationError, match="no option 'on_error'"):
        numbers(1).map_batches(list, on_error="skip")  # type: ignore[call-arg]


@pytest.mark.parametrize("operation", ["filter", "key_by"])
def test_a_typed_stream_stays_typed(operation: str) -> None:
    typed = numbers(1).map(lambda n: (n,)).with_schema(SCHEMA)
    stream = OPERATIONS[operation](typed, on_error="skip")
    assert getattr(stream, "_stream", stream).schema == SCHEMA


def test_records_without_a_key_are_left_out_of_what_follows() -> None:
    counted = numbers(4, 0, 4).key_by(eighth, on_error="skip").count()
    assert counted.execute_and_collect() == [(2, 1), (2, 2)]


def test_the_operator_that_asks_for_keys_runs_where_the_records_are() -> None:
    stream = numbers(1, parallelism=3).map(eighth, parallelism=2)
    stream.key_by(str, on_error="skip").count()
    nodes = stream._dataflow.graph.nodes
    assert [nodes[uid].parallelism for uid in ("map-2", "key_by-3")] == [2, 2]


def test_letters_that_nobody_reads_are_said_at_the_start() -> None:
    env = cw.Environment(launcher=LocalLauncher())
    env.from_collection([1]).map(eighth, on_error="dead_letter", uid="eighth").sink_to(cw.sinks.discard())
    with pytest.warns(UserWarning, match='nothing reads the dead letters of operator "eighth"') as found:
        env.execute("unread")
    assert len(found) == 1
    assert 'nothing reads the dead letters of operator "eighth"' in env.explain().warnings[0]


def test_letters_that_are_read_elsewhere_are_no_reason_to_warn() -> None:
    env = cw.Environment(launcher=LocalLauncher())
    stream = env.from_collection([1]).map(eighth, on_error="dead_letter")
    stream.side_output("errors").sink_to(cw.sinks.discard())
    stream.sink_to(cw.sinks.discard())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env.execute("read")
        stream.execute_and_collect()


def test_a_letter_can_be_written_as_json() -> None:
    stream = numbers(0).map(eighth, on_error="dead_letter", uid="eighth")
    (letter,) = stream.side_output("errors").execute_and_collect()
    written = json.loads(JsonLinesEncoder().encode(ObjectBatch([letter])))
    assert written == {**{field: getattr(letter, field) for field in written}, "record": 0, "operator": "eighth"}
    assert list(written) == ["record", "position", "error", "operator", "line"]

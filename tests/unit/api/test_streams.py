from __future__ import annotations

import warnings
from typing import Any

import pytest

import cutwater as cw
from cutwater.errors import ConfigurationError, GraphError, UserError
from cutwater.graph.keys import KeySelector
from cutwater.graph.model import LogicalEdge, LogicalGraph, Partitioning
from cutwater.operators.connect import BroadcastConnectOperator, ConnectOperator
from cutwater.operators.source import ReaderOperator

from .launchers import FakeLauncher

FORWARD, HASH, REBALANCE, BROADCAST = (
    Partitioning.FORWARD,
    Partitioning.HASH,
    Partitioning.REBALANCE,
    Partitioning.BROADCAST,
)


def environment(parallelism: int = 2, **options: object) -> cw.Environment:
    return cw.Environment(parallelism=parallelism, launcher=FakeLauncher(), **options)  # type: ignore[arg-type]


def written(env: cw.Environment) -> LogicalGraph:
    return env._dataflow.graph


def split(line: str) -> list[str]:
    return line.split()


class Both:
    def process1(self, record: object, context: object) -> None: ...
    def process2(self, record: object, context: object) -> None: ...


class Rules:
    def process(self, record: object, context: object) -> None: ...
    def process_broadcast(self, record: object, context: object) -> None: ...


def test_a_word_count_becomes_a_graph() -> None:
    env = environment()
    by_word = KeySelector(function=lambda word: word)
    assert by_word.function is not None
    env.from_collection(["a b"], uid="books").flat_map(split).key_by(by_word.function).count().sink_to(
        cw.sinks.discard()
    )
    assert written(env).edges == [
        LogicalEdge("books", "flat_map-2", FORWARD),
        LogicalEdge("flat_map-2", "count-3", HASH, key=by_word),
        LogicalEdge("count-3", "discard-4", FORWARD),
    ]


def test_generated_uids_are_the_same_every_time() -> None:
    def write() -> list[str]:
        env = environment()
        numbers = env.from_collection([1]).map(lambda number: number).filter(bool)
        numbers.key_by(lambda number: number).sum().sink_to(cw.sinks.discard())
        return list(written(env).nodes)

    assert write() == write() == ["collection-1", "map-2", "filter-3", "sum-4", "discard-5"]


def test_an_operator_is_named_after_its_function() -> None:
    env = environment()
    env.from_collection(["a"]).flat_map(split).map(lambda word: word)
    assert [node.name for node in written(env).nodes.values()][1:] == ["flat_map(split)", "map"]


def test_an_operator_knows_where_it_was_written() -> None:
    env = environment()
    env.from_collection(["a"]).map(len, uid="lengths")
    line = test_an_operator_knows_where_it_was_written.__code__.co_firstlineno + 2
    assert written(env).nodes["lengths"].written_at == f"test_streams.py:{line}"


def test_settings_are_taken_from_keywords() -> None:
    env = environment()
    env.from_collection([1]).map(str, uid="text", name="to text", parallelism=3, chaining=False)
    node = written(env).nodes["text"]
    assert (node.name, node.parallelism, node.chainable, node.uid_is_explicit) == ("to text", 3, False, True)


def test_a_change_of_parallelism_rebalances() -> None:
    env = environment()
    env.from_collection([1], uid="in").map(str, uid="out", parallelism=1)
    assert written(env).edges == [LogicalEdge("in", "out", REBALANCE)]


def test_rebalance_and_broadcast_spread_anew() -> None:
    env = environment()
    numbers = env.from_collection([1], uid="in")
    numbers.rebalance().map(str, uid="a")
    numbers.broadcast().map(str, uid="b")
    assert written(env).edges == [LogicalEdge("in", "a", REBALANCE), LogicalEdge("in", "b", BROADCAST)]


def test_a_union_is_one_input_with_several_edges() -> None:
    env = environment()
    a, b, c = (env.from_collection([1], uid=uid) for uid in "abc")
    a.union(b, c).map(str, uid="out")
    assert written(env).edges == [LogicalEdge(uid, "out", FORWARD) for uid in "abc"]


def test_a_keyed_union_is_partitioned_on_every_edge() -> None:
    env = environment()
    a, b = (env.from_collection([{"k": 1}], uid=uid) for uid in "ab")
    a.union(b).key_by("k").count(uid="out")
    key = KeySelector(columns=("k",))
    assert written(env).edges == [LogicalEdge(uid, "out", HASH, key=key) for uid in "ab"]


def test_a_side_output_is_an_edge_with_a_tag() -> None:
    env = environment()
    numbers = env.from_collection([1], uid="in").process(lambda record, context: None, uid="sort")
    numbers.side_output("odd").map(str, uid="odd")
    assert written(env).edges[-1] == LogicalEdge("sort", "odd", FORWARD, tag="odd")


def test_two_plain_streams_connect_on_two_ports() -> None:
    env = environment()
    a, b = (env.from_collection([1], uid=uid) for uid in "ab")
    a.connect(b).process(Both(), uid="both")
    assert written(env).edges == [LogicalEdge("a", "both", FORWARD, 0), LogicalEdge("b", "both", FORWARD, 1)]
    assert isinstance(written(env).nodes["both"].build(), ConnectOperator)


def test_two_keyed_streams_connect_by_their_keys() -> None:
    env = environment()
    a, b = (env.from_collection([{"k": 1}], uid=uid) for uid in "ab")
    a.key_by("k").connect(b.key_by("id")).process(Both(), uid="both")
    assert [(edge.port, edge.key) for edge in written(env).edges] == [
        (0, KeySelector(columns=("k",))),
        (1, KeySelector(columns=("id",))),
    ]


def test_a_broadcast_second_stream_is_seen_by_every_task() -> None:
    env = environment()
    a, b = (env.from_collection([{"k": 1}], uid=uid) for uid in "ab")
    a.key_by("k").connect(b.broadcast()).process(Rules(), uid="both")
    assert [edge.partitioning for edge in written(env).edges] == [HASH, BROADCAST]
    assert isinstance(written(env).nodes["both"].build(), BroadcastConnectOperator)


def test_without_checkpoints_a_source_is_read_at_most_once() -> None:
    env = environment(checkpoints=cw.Checkpoints(mode="none"))
    env.from_collection([1], uid="in")
    operator = written(env).nodes["in"].build()
    assert isinstance(operator, ReaderOperator)
    assert operator._at_most_once


def test_every_keyed_operation_makes_its_operator() -> None:
    class Mean:
        def create_accumulator(self) -> tuple[int, int]:
            return (0, 0)

        def add(self, value: int, accumulator: tuple[int, int]) -> tuple[int, int]:
            return accumulator

        def get_result(self, accumulator: tuple[int, int]) -> int:
            return 0

        def merge(self, accumulator: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
            return accumulator

    env = environment()
    keyed = env.from_collection([(1, 2)]).key_by(lambda pair: pair[0])
    keyed.sum(1)
    keyed.min("price")
    keyed.max(lambda pair: pair[1])
    keyed.reduce(max)
    keyed.aggregate(Mean())
    keyed.process(lambda record, context: None)
    names = [node.name for node in written(env).nodes.values()][1:]
    assert names == ["sum(1)", "min(price)", "max", "reduce(max)", "aggregate(Mean)", "process"]


@pytest.mark.parametrize("keys", [(), ("a", len), (len, len), (True,), (1, "a"), ([],)])
def test_what_is_no_key_is_refused(keys: tuple[object, ...]) -> None:
    with pytest.raises(GraphError, match="key_by can't make a key of"):
        environment().from_collection([1]).key_by(*keys)  # type: ignore[arg-type]


def test_a_uid_given_twice_is_refused_with_both_places() -> None:
    numbers = environment().from_collection([1], uid="same")
    with pytest.raises(GraphError) as caught:
        numbers.map(str, uid="same")
    assert caught.value.detail.count("test_streams.py:") == 2


@pytest.mark.parametrize("uid", ["", "a/b", "..", "-a", "a b"])
def test_a_uid_that_cannot_name_a_file_is_refused(uid: str) -> None:
    with pytest.raises(GraphError, match="can't be a uid"):
        environment().from_collection([1], uid=uid)


def test_a_misspelt_setting_is_answered_with_the_nearest() -> None:
    with pytest.raises(ConfigurationError, match="did you mean 'parallelism'"):
        environment().from_collection([1]).map(str, paralelism=2)  # type: ignore[call-arg]


@pytest.mark.parametrize("parallelism", [0, 129, True, "2"])
def test_a_parallelism_out_of_range_is_refused(parallelism: int) -> None:
    with pytest.raises(ConfigurationError, match="whole number from 1 to 128"):
        environment().from_collection([1]).map(str, parallelism=parallelism)


def test_a_function_is_needed_where_one_is_meant() -> None:
    numbers = environment().from_collection([1])
    with pytest.raises(UserError, match="map needs a function, not 'len'"):
        numbers.map("len")  # type: ignore[arg-type]
    with pytest.raises(UserError, match='"Both" is a class'):
        numbers.connect(numbers).process(Both)
    with pytest.raises(UserError, match="is not an aggregate"):
        numbers.key_by(str).aggregate(object())  # type: ignore[arg-type]
    with pytest.raises(UserError, match="reduce needs a function"):
        numbers.key_by(str).reduce(3)  # type: ignore[arg-type]


def test_what_is_no_source_or_sink_is_refused() -> None:
    env = environment()
    with pytest.raises(ConfigurationError, match="is not a source"):
        env.from_source("books/*.txt")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="is not a sink"):
        env.from_collection([1]).sink_to("out/")  # type: ignore[arg-type]


def test_streams_that_cannot_meet_are_refused() -> None:
    env = environment()
    numbers, others = env.from_collection([1]), env.from_collection([2])
    with pytest.raises(GraphError, match="different environments"):
        numbers.union(environment().from_collection([1]))
    with pytest.raises(GraphError, match="one of two connected streams is keyed"):
        numbers.key_by(str).connect(others)
    with pytest.raises(GraphError, match="the first of two connected streams is broadcast"):
        numbers.broadcast().connect(others)
    with pytest.raises(GraphError, match="broadcast stream can't be keyed"):
        numbers.broadcast().key_by(str)
    with pytest.raises(GraphError, match="can't be united"):
        numbers.union(others.key_by(str))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "stream",
    [
        lambda numbers: numbers,
        lambda numbers: numbers.map(str),
        lambda numbers: numbers.key_by(lambda n: n).count(),
        lambda numbers: numbers.key_by(lambda n: n).window(cw.count_window(2)).reduce(max),
        lambda numbers: numbers.map(str).union(numbers.filter(bool)),
    ],
    ids=["source", "map", "count", "window", "union"],
)
def test_a_side_output_that_no_operator_can_have_is_refused(stream: Any) -> None:
    numbers = stream(cw.Environment().from_collection([1, 2]))
    with pytest.raises(GraphError, match='can have no side output "late"'):
        numbers.side_output("late")


def test_a_side_output_of_another_name_than_that_of_late_records_is_refused() -> None:
    timed = cw.Environment().from_collection([1]).assign_timestamps(lambda n: n, cw.watermarks.monotonous())
    counts = timed.key_by(lambda n: n).window(cw.tumbling("1s")).late_output("late").reduce(max)
    counts.side_output("late")
    with pytest.raises(GraphError, match="it has 'late'"):
        counts.side_output("lates")


def test_a_function_may_have_any_side_output() -> None:
    numbers = cw.Environment().from_collection([1])
    both = numbers.process(lambda record, context: None).union(numbers.map(str))
    both.side_output("whatever")


LATE = "late"


class TwoOutputs:
    """Names its side outputs in the ways that people do."""

    def process(self, record: int, context: Any) -> None:
        context.side_output(LATE, record)
        for each in range(record):
            context.side_output("odd", each)


def test_a_side_output_that_a_function_does_not_name_is_warned_of_on_the_line_that_reads_it() -> None:
    both = cw.Environment().from_collection([1]).process(TwoOutputs())
    both.side_output("late")
    both.side_output("odd")
    with pytest.warns(UserWarning, match="\"lates\": operator .* names 'late', 'odd'") as told:
        both.side_output("lates")
    assert told[0].filename == __file__


def test_a_tag_that_is_known_only_when_the_function_runs_is_no_reason_to_warn() -> None:
    def by_kind(record: Any, context: Any) -> None:
        context.side_output("known", record)
        context.side_output(record.kind, record)

    cw.Environment().from_collection([1]).process(by_kind).side_output("whatever")


def test_a_window_function_has_its_own_side_outputs_and_that_of_late_records() -> None:
    def function(key: Any, records: Any, context: Any) -> None:
        context.side_output("odd", key)

    timed = cw.Environment().from_collection([1]).assign_timestamps(lambda n: n, cw.watermarks.monotonous())
    results = timed.key_by(lambda n: n).window(cw.tumbling("1s")).late_output("late").process(function)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        results.side_output("late")
        results.side_output("odd")
    with pytest.warns(UserWarning, match="lates"):
        results.side_output("lates")

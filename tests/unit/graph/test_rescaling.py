"""Does a dataflow keep its meaning when it gets more or fewer tasks?"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import cutwater as cw
from cutwater.errors import ConfigurationError
from cutwater.graph.model import LogicalGraph
from cutwater.graph.rescaling import rescaled


def graph_of(**settings: Any) -> LogicalGraph:
    env = cw.Environment(parallelism=2, max_parallelism=8)
    numbers = env.from_collection([1, 2], uid="numbers", parallelism=1).map(abs, uid="map", **settings)
    numbers.key_by(lambda number: number).count(uid="count").sink_to(cw.sinks.discard(), uid="sink")
    return env._dataflow.graph


def shape_of(graph: LogicalGraph) -> tuple[dict[str, int], list[str]]:
    return {uid: node.parallelism for uid, node in graph.nodes.items()}, [
        str(edge.partitioning) for edge in graph.edges
    ]


def test_operators_get_the_new_parallelism_except_where_the_user_gave_one() -> None:
    graph = graph_of()
    before = shape_of(graph)
    after = shape_of(rescaled(graph, 5))
    assert after == ({"numbers": 1, "map": 5, "count": 5, "sink": 5}, ["rebalance", "hash", "forward"])
    assert shape_of(graph) == before, "the graph itself stays as it was"


def test_records_are_spread_where_task_to_task_is_no_longer_possible() -> None:
    env = cw.Environment(parallelism=2)
    numbers = env.from_collection([1, 2], uid="numbers", parallelism=2)
    numbers.map(abs, uid="map").sink_to(cw.sinks.discard(), uid="sink")
    edges = shape_of(rescaled(env._dataflow.graph, 3))[1]
    assert (shape_of(env._dataflow.graph)[1], edges) == (["forward", "forward"], ["rebalance", "forward"])


@pytest.mark.parametrize("parallelism", [0, -1, 9, "2", True, 1.5])
def test_a_parallelism_that_can_not_be_is_refused(parallelism: Any) -> None:
    with pytest.raises(ConfigurationError):
        rescaled(graph_of(), parallelism)


@pytest.mark.parametrize(("of_source", "after"), [({}, 5), ({"parallelism": 2}, 2)])
def test_what_is_aggregated_in_front_of_a_shuffle_stays_beside_its_sender(of_source: Any, after: int) -> None:
    env = cw.Environment(parallelism=2)
    sales = env.from_collection(pa.table({"item": ["a"], "price": [1]}), uid="sales", **of_source)
    sales.key_by("item").sum("price", update="batch", uid="sum").sink_to(cw.sinks.discard(), uid="sink")
    parallelism, edges = shape_of(rescaled(env._dataflow.graph, 5))
    assert parallelism == {"sales": after, "sum-partial": after, "sum": 5, "sink": 5}
    assert edges[0] == "forward"

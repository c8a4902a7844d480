"""Do two streams meet in one function, with the state that each may see?"""

from __future__ import annotations

from typing import Any

import pytest

from cutwater.errors import UserError, UserFunctionError
from cutwater.graph.keys import KeySelector
from cutwater.operators.connect import BroadcastConnectOperator, ConnectOperator

FIRST = KeySelector(lambda record: record[0])
SECOND = KeySelector(lambda record: record[1])


class Control:
    """The second stream opens and shuts the gate for a key of the first."""

    def open(self, context: Any) -> None:
        self.open_gate = context.value_state("open", False)

    def process1(self, record: Any, context: Any) -> list[Any] | None:
        return [record] if self.open_gate.value() else None

    def process2(self, record: Any, context: Any) -> None:
        self.open_gate.update(record[0])


class Price:
    """Multiplies by a factor that the broadcast stream sets."""

    def process(self, record: Any, context: Any) -> list[Any]:
        return [record * context.broadcast_state.get("factor", 1)]

    def process_broadcast(self, record: Any, context: Any) -> None:
        context.broadcast_state["factor"] = record


def test_each_port_has_its_map(task: Any) -> None:
    class Both:
        def map1(self, record: Any) -> Any:
            return "one", record

        def map2(self, record: Any) -> Any:
            return "two", record

    chain = task(ConnectOperator(Both()))
    chain.feed(1, port=0)
    chain.feed(1, port=1)
    assert chain.output == [("one", 1), ("two", 1)]


def test_both_ports_share_the_state_of_their_keys(task: Any) -> None:
    chain = task(ConnectOperator(Control(), keys=(FIRST, SECOND)))
    chain.feed((True, "a"), port=1)
    chain.feed(("a", 1), ("b", 2), port=0)
    chain.feed((False, "a"), port=1)
    chain.feed(("a", 3), port=0)
    assert chain.output == [("a", 1)]


def test_keyed_maps_see_their_key(task: Any) -> None:
    class Numbered:
        def open(self, context: Any) -> None:
            self.count = context.value_state("count", 0)

        def map1(self, record: Any) -> Any:
            self.count.update(self.count.value() + 1)
            return self.count.value()

        map2 = map1

    chain = task(ConnectOperator(Numbered(), keys=(FIRST, SECOND)))
    chain.feed(("a", 0), ("b", 0), port=0)
    chain.feed((0, "a"), port=1)
    assert chain.output == [1, 1, 2]


def test_a_function_for_one_stream_only_is_refused() -> None:
    class Half:
        def process1(self, record: Any, context: Any) -> None: ...

    with pytest.raises(UserError, match="can't process two streams"):
        ConnectOperator(Half())


def test_broadcast_records_change_what_the_others_see(task: Any) -> None:
    chain = task(BroadcastConnectOperator(Price()))
    chain.feed(2)
    chain.feed(10, port=1)
    chain.feed(3)
    assert chain.output == [2, 30]


def test_the_other_side_can_not_change_the_broadcast_state(task: Any) -> None:
    class Cheat(Price):
        def process(self, record: Any, context: Any) -> list[Any]:
            context.broadcast_state["factor"] = record
            return []

    with pytest.raises(UserFunctionError, match="does not support item assignment"):
        task(BroadcastConnectOperator(Cheat())).feed(1)


def test_a_broadcast_record_has_no_keyed_state(task: Any) -> None:
    class Lost(Price):
        def process_broadcast(self, record: Any, context: Any) -> None:
            context.value_state("x")

    chain = task(BroadcastConnectOperator(Lost(), key=KeySelector(lambda record: record)))
    with pytest.raises(UserError, match="belongs to no key"):
        chain.feed(1, port=1)


def test_every_task_restores_the_copy_of_the_lowest_subtask(task: Any) -> None:
    items: list[bytes] = []
    for subtask in (2, 0, 1):
        chain = task(BroadcastConnectOperator(Price()), subtask=subtask, parallelism=3)
        chain.feed(10 + subtask, port=1)
        items += chain.freeze()["broadcast"]
    restored = task(BroadcastConnectOperator(Price()), lists={"broadcast": items})
    restored.feed(1)
    assert restored.output == [10]


def test_broadcast_state_is_given_to_all_and_frozen_by_value(task: Any) -> None:
    class Growing(Price):
        def process(self, record: Any, context: Any) -> list[Any]:
            return [list(context.broadcast_state["rules"])]

        def process_broadcast(self, record: Any, context: Any) -> None:
            context.broadcast_state.setdefault("rules", []).append(record)

    chain = task(BroadcastConnectOperator(Growing()))
    chain.feed("r1", port=1)
    snapshot = chain.operator.freeze(1)
    chain.feed("r2", port=1)
    restored = task(BroadcastConnectOperator(Growing()), lists={"broadcast": list(snapshot.lists[0].items)})
    restored.feed(0)
    assert (snapshot.lists[0].redistribution, restored.output) == ("union", [["r1"]])

"""Does a snapshot that is still being written stay as it was, whatever user code changes in place meanwhile?"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from cutwater.batches import ObjectBatch, rows_of
from cutwater.graph.keys import KeySelector
from cutwater.operators.contract import Operator
from cutwater.operators.joins.inputs import JoinInputs
from cutwater.operators.joins.interval import IntervalJoinOperator
from cutwater.operators.joins.pairing import TuplePairing
from cutwater.operators.keyed import RunningAggregate, RunningMax, RunningReduce
from cutwater.operators.process import KeyedProcessOperator
from cutwater.operators.windows.aligned import AlignedWindowOperator
from cutwater.operators.windows.folds import Records, Reduce
from cutwater.operators.windows.model import AlignedWindows
from cutwater.operators.windows.operator import WindowSpec
from cutwater.operators.windows.results import Plain
from cutwater.operators.windows.triggers import EventTimeTrigger

KEY = KeySelector(lambda record: record["k"])


class InPlace:
    """Everything that a function can do to its state without saying so."""

    def open(self, context: Any) -> None:
        self.value = context.value_state("value", default=[])
        self.list = context.list_state("list")
        self.map = context.map_state("map")

    def process(self, record: Any, context: Any) -> Iterator[Any]:
        values = self.value.value()
        values.append(record["n"])
        self.value.update(values)
        values.append(-1)  # behind the update: still the state's own
        self.list.add(record)
        for kept in self.list.get():
            kept["n"] += 1
        self.map.put(record["n"], {"seen": [record["n"]]})
        for seen in self.map.items():
            seen[1]["seen"].append(0)
        yield record
        yield values


class Summed:
    def create_accumulator(self) -> dict[str, Any]:
        return {"k": "a", "n": 0}

    def add(self, record: Any, accumulator: dict[str, Any]) -> dict[str, Any]:
        accumulator["n"] += record["n"]
        return accumulator

    def get_result(self, accumulator: dict[str, Any]) -> dict[str, Any]:
        return accumulator

    def merge(self, accumulator: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
        return self.add(other, accumulator)


def add_in_place(total: dict[str, Any], record: dict[str, Any]) -> dict[str, Any]:
    total["n"] += record["n"]
    return total


def windowed(fold: Any) -> Operator:
    windows = AlignedWindows(size_ms=20, every_ms=10, offset_ms=0, time="event")
    return AlignedWindowOperator(WindowSpec(KEY, windows, EventTimeTrigger(), fold, Plain()))


OPERATORS: dict[str, Callable[[], Operator]] = {
    "process": lambda: KeyedProcessOperator(KEY, InPlace()),
    "reduce": lambda: RunningReduce(KEY, add_in_place),
    "aggregate": lambda: RunningAggregate(KEY, Summed()),
    "max": lambda: RunningMax(KEY, lambda record: [record["n"]]),
    "windowed reduce": lambda: windowed(Reduce(add_in_place)),
    "windowed records": lambda: windowed(Records()),
    "interval join": lambda: IntervalJoinOperator(JoinInputs((KEY, KEY), TuplePairing()), -50, 50),
}


def spoiled(value: Any) -> None:
    """What a function behind the operator may do to what it gets."""
    match value:
        case dict():
            for inner in value.values():
                spoiled(inner)
            value["spoiled"] = True
        case list():
            for inner in value:
                spoiled(inner)
            value.append("spoiled")
        case tuple():
            for inner in value:
                spoiled(inner)


def contents(frozen: Any) -> dict[tuple[str, int], Any]:
    return {(name, group): pickle.loads(data) for name, group, data in frozen.chunks()}


@pytest.mark.parametrize("name", OPERATORS)
def test_a_frozen_state_does_not_change_with_what_happens_behind_the_barrier(name: str, task: Any) -> None:
    def run(*, goes_on: bool) -> dict[tuple[str, int], Any]:
        chain = task(OPERATORS[name]())
        feed = _feeder(chain)
        for at in (1, 2, 11):
            feed({"k": "a", "n": at}, at)
        frozen = chain.freeze_keyed()
        for at in (12, 13, 14) if goes_on else ():
            feed({"k": "a", "n": at}, at)
        if goes_on:
            chain.operator.on_watermark(1_000)
            spoiled([row for batch in chain.batches for row in rows_of(batch)])
        return contents(frozen)

    expected = run(goes_on=False)
    assert expected
    assert run(goes_on=True) == expected


def _feeder(chain: Any) -> Callable[[Any, int], None]:
    """Each record, by turns to both ports of a join; what comes out is spoiled at once."""

    def feed(record: Any, at: int) -> None:
        ports = (0, 1) if isinstance(chain.operator, IntervalJoinOperator) else (0,)
        for port in ports:
            chain.operator.process(ObjectBatch([dict(record)], np.array([at], np.int64)), port)
        spoiled([row for batch in chain.batches for row in rows_of(batch)])
        chain.batches.clear()

    return feed

"""Is what a function gets its own, and what it emits what it was at that moment?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

import cutwater as cw
from cutwater.testing.harness import LocalLauncher

CHAINING = pytest.mark.parametrize("chaining", [True, False], ids=["chained", "apart"])
BACKENDS = pytest.mark.parametrize("backend", ["memory", "rocksdb"])


@dataclass
class Account:
    key: str
    n: int


def environment(**options: Any) -> cw.Environment:
    if options.get("state_backend") == "rocksdb":
        # The folder is a name only: a LocalLauncher keeps its files in memory.
        options["checkpoints"] = cw.Checkpoints(every="1h", storage="file:///nowhere")
    return cw.Environment(launcher=LocalLauncher(), **options)


def ones(count: int = 4) -> list[dict[str, Any]]:
    return [{"k": "a", "n": 1} for _ in range(count)]


def add_in_place(total: dict[str, Any], record: dict[str, Any]) -> dict[str, Any]:
    total["n"] += record["n"]
    return total


def add_to_the_record(total: dict[str, Any], record: dict[str, Any]) -> dict[str, Any]:
    record["n"] += total["n"]
    return record


def thousandfold(record: dict[str, Any]) -> dict[str, Any]:
    record["n"] *= 1000
    return record


class InPlace:
    """An aggregate whose accumulator is its result."""

    def create_accumulator(self) -> dict[str, int]:
        return {"n": 0}

    def add(self, record: Any, accumulator: dict[str, int]) -> dict[str, int]:
        accumulator["n"] += 1
        return accumulator

    def get_result(self, accumulator: dict[str, int]) -> dict[str, int]:
        return accumulator

    def merge(self, accumulator: dict[str, int], other: dict[str, int]) -> dict[str, int]:
        accumulator["n"] += other["n"]
        return accumulator


@BACKENDS
@pytest.mark.parametrize("function", [add_in_place, add_to_the_record])
def test_reduce_may_change_and_return_either_argument(function: Callable[[Any, Any], Any], backend: str) -> None:
    env = environment(state_backend=backend)
    reduced = env.from_collection(ones()).key_by("k").reduce(function).execute_and_collect()
    assert [record["n"] for record in reduced] == [1, 2, 3, 4]


@BACKENDS
def test_reduce_may_change_an_object_of_a_class(backend: str) -> None:
    def add(total: Account, record: Account) -> Account:
        total.n += record.n
        return total

    env = environment(state_backend=backend)
    stream = env.from_collection([Account("a", 1) for _ in range(4)]).key_by("key")
    assert [one.n for one in stream.reduce(add).execute_and_collect()] == [1, 2, 3, 4]


@BACKENDS
@pytest.mark.parametrize("update", ["record", "batch", "1s"])
def test_an_aggregate_may_give_out_its_accumulator(update: Any, backend: str) -> None:
    env = environment(state_backend=backend)
    stream = env.from_collection([1] * 4).key_by(lambda _: 1).aggregate(InPlace(), update=update)
    results = [result["n"] for _, result in stream.map(lambda pair: pair).execute_and_collect()]
    assert results == ([1, 2, 3, 4] if update == "record" else sorted(set(results))), "a later record changed a result"
    assert results[-1] == 4


@CHAINING
@BACKENDS
def test_what_follows_a_reduce_may_change_its_results(chaining: bool, backend: str) -> None:
    env = environment(chaining=chaining, state_backend=backend)
    reduced = env.from_collection(ones()).key_by("k").reduce(lambda a, b: {"k": a["k"], "n": a["n"] + b["n"]})
    assert [record["n"] for record in reduced.map(thousandfold).execute_and_collect()] == [1000, 2000, 3000, 4000]


@CHAINING
def test_what_follows_a_minimum_may_change_it(chaining: bool) -> None:
    env = environment(chaining=chaining)
    smallest = env.from_collection([[3, 0], [4, 0], [5, 0]]).key_by(lambda _: 1).min()

    def cleared(pair: tuple[int, list[int]]) -> list[int]:
        pair[1].append(9)
        return pair[1]

    assert smallest.map(cleared).execute_and_collect() == [[3, 0, 9]] * 3


@CHAINING
def test_branches_of_a_stream_do_not_see_each_others_changes(chaining: bool) -> None:
    env = environment(chaining=chaining)
    stream = env.from_collection([{"n": 1}, {"n": 2}])
    changed, plain, again = cw.sinks.collect(), cw.sinks.collect(), cw.sinks.collect()
    stream.map(thousandfold).sink_to(changed)
    stream.sink_to(plain)
    stream.map(thousandfold).map(thousandfold).sink_to(again)
    env.execute("branches")
    assert changed.collected.take() == [{"n": 1000}, {"n": 2000}]
    assert plain.collected.take() == [{"n": 1}, {"n": 2}]
    assert again.collected.take() == [{"n": 1_000_000}, {"n": 2_000_000}]


@CHAINING
def test_a_record_may_leave_by_the_main_and_by_a_side_output(chaining: bool) -> None:
    def split(record: dict[str, Any], context: Any) -> Iterator[dict[str, Any]]:
        context.side_output("seen", record)
        yield record

    env = environment(chaining=chaining)
    both = env.from_collection([{"n": 1}]).process(split)
    main, seen = cw.sinks.collect(), cw.sinks.collect()
    both.map(thousandfold).sink_to(main)
    both.side_output("seen").sink_to(seen)
    env.execute("sides")
    assert (main.collected.take(), seen.collected.take()) == ([{"n": 1000}], [{"n": 1}])


class ValueInPlace:
    """Changes the value of its state, and emits it."""

    def open(self, context: Any) -> None:
        self.total = context.value_state("total")

    def process(self, record: dict[str, Any], context: Any) -> Iterator[dict[str, Any]]:
        total = self.total.value() or {"n": 0}
        total["n"] += record["n"]
        self.total.update(total)
        yield total


class FirstRecordInState:
    """Emits before it keeps: the same object."""

    def open(self, context: Any) -> None:
        self.seen = context.map_state("seen")

    def process(self, record: dict[str, Any], context: Any) -> Iterator[dict[str, Any]]:
        yield record
        self.seen.put(len(self.seen.items()), record)
        yield {"n": sum(kept["n"] for _, kept in self.seen.items())}


class ListOfRecords:
    def open(self, context: Any) -> None:
        self.records = context.list_state("records")

    def process(self, record: dict[str, Any], context: Any) -> None:
        self.records.add(record)
        for kept in self.records.get():
            context.emit(kept)


class Folded:
    def open(self, context: Any) -> None:
        self.total = context.reducing_state("total", add_in_place)

    def process(self, record: dict[str, Any], context: Any) -> list[dict[str, Any]]:
        self.total.add(record)
        return [self.total.get()]


@CHAINING
@BACKENDS
@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (ValueInPlace, [1000, 2000, 3000]),
        (FirstRecordInState, [1000, 1000, 1000, 2000, 1000, 3000]),
        (ListOfRecords, [1000] * 6),
        (Folded, [1000, 2000, 3000]),
    ],
)
def test_what_follows_a_function_may_change_what_is_in_its_state(
    function: Callable[[], Any], expected: list[int], backend: str, chaining: bool
) -> None:
    env = environment(chaining=chaining, state_backend=backend)
    processed = env.from_collection(ones(3)).key_by("k").process(function())
    assert [record["n"] for record in processed.map(thousandfold).execute_and_collect()] == expected


@BACKENDS
def test_a_timer_may_emit_what_is_in_its_state(backend: str) -> None:
    class Timed:
        def open(self, context: Any) -> None:
            self.total = context.value_state("total", default={"n": 0})

        def process(self, record: Any, context: Any) -> None:
            total = self.total.value()
            total["n"] += 1
            self.total.update(total)
            context.register_event_timer(1000 + record)

        def on_timer(self, time_ms: int, context: Any) -> Iterator[dict[str, int]]:
            yield self.total.value()

    env = environment(state_backend=backend)
    timed = env.from_collection([1, 2, 3]).assign_timestamps(lambda record: record, cw.watermarks.monotonous())
    fired = timed.key_by(lambda _: 1).process(Timed()).map(thousandfold).execute_and_collect()
    assert [record["n"] for record in fired] == [3000, 3000, 3000]


class Rules:
    def process(self, record: Any, context: Any) -> Iterator[Any]:
        yield from context.broadcast_state.values()

    def process_broadcast(self, rule: dict[str, Any], context: Any) -> Iterator[Any]:
        context.broadcast_state[rule["k"]] = rule
        yield rule


def test_what_is_emitted_of_broadcast_state_may_be_changed() -> None:
    env = environment()
    rules = env.from_collection([{"k": "a", "n": 1}]).broadcast()
    seen = env.from_collection(list(range(3))).connect(rules).process(Rules()).map(thousandfold).execute_and_collect()
    assert {record["n"] for record in seen} == {1000}


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_every_task_has_its_own_records_of_a_broadcast_stream(parallelism: int) -> None:
    env = environment(parallelism=parallelism)
    copies = env.from_collection([{"n": 1}, {"n": 2}]).broadcast().map(thousandfold).execute_and_collect()
    assert sorted(record["n"] for record in copies) == sorted([1000, 2000] * parallelism)


def timed(env: cw.Environment, records: list[dict[str, Any]]) -> cw.DataStream:
    return env.from_collection(records).assign_timestamps(lambda r: r["at"], cw.watermarks.monotonous())


SLIDING = cw.sliding("20ms", every="10ms")


@BACKENDS
@pytest.mark.parametrize("function", [add_in_place, add_to_the_record])
def test_overlapping_windows_reduce_records_of_their_own(function: Callable[[Any, Any], Any], backend: str) -> None:
    env = environment(state_backend=backend)
    records = [{"k": "a", "n": 1, "at": at} for at in (1, 2, 11, 12)]
    sums = timed(env, records).key_by("k").window(SLIDING).reduce(function).map(thousandfold).execute_and_collect()
    assert [record["n"] for record in sums] == [2000, 4000, 2000]


@BACKENDS
def test_a_window_function_may_change_records_that_other_windows_have(backend: str) -> None:
    def change(key: str, records: list[dict[str, Any]], context: Any) -> Iterator[int]:
        yield sum(thousandfold(record)["n"] for record in records)

    env = environment(state_backend=backend)
    records = [{"k": "a", "n": 1, "at": at} for at in (1, 2, 11, 12)]
    assert timed(env, records).key_by("k").window(SLIDING).process(change).execute_and_collect() == [2000, 4000, 2000]


@BACKENDS
def test_a_window_that_fires_again_goes_on_from_what_it_was(backend: str) -> None:
    env = environment(state_backend=backend)
    windows = env.from_collection(ones()).key_by("k").window(cw.global_window())
    fired = windows.trigger(cw.triggers.count(2)).reduce(add_in_place).map(thousandfold).execute_and_collect()
    assert [record["n"] for record in fired] == [2000, 4000]


@BACKENDS
def test_a_window_function_may_change_the_result_of_a_window_that_goes_on(backend: str) -> None:
    def change(key: str, results: list[dict[str, Any]], context: Any) -> Iterator[int]:
        yield thousandfold(results[0])["n"]

    env = environment(state_backend=backend)
    windows = env.from_collection(ones()).key_by("k").window(cw.global_window()).trigger(cw.triggers.count(2))
    assert windows.reduce(add_in_place, process=change).execute_and_collect() == [2000, 4000]


@BACKENDS
def test_a_window_function_may_change_what_an_evictor_keeps(backend: str) -> None:
    def change(key: str, records: list[dict[str, Any]], context: Any) -> Iterator[int]:
        yield sum(thousandfold(record)["n"] for record in records)

    env = environment(state_backend=backend)
    stream = env.from_collection(ones()).key_by("k").window(cw.count_window(3, every=1))
    assert stream.process(change).execute_and_collect() == [1000, 2000, 3000, 3000]


@BACKENDS
@pytest.mark.parametrize("how", [{"between": ("-5ms", "5ms")}, {"window": cw.tumbling("10ms")}], ids=["near", "window"])
def test_a_join_may_change_the_records_of_its_pairs(how: dict[str, Any], backend: str) -> None:
    def merged(left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
        left["n"] += right["n"]
        right["n"] = 0
        return left

    env = environment(state_backend=backend)
    lefts = timed(env, [{"k": "a", "n": 1, "at": 1}, {"k": "a", "n": 10, "at": 2}]).key_by("k")
    rights = timed(env, [{"k": "a", "n": 100, "at": 1}, {"k": "a", "n": 200, "at": 3}]).key_by("k")
    pairs = lefts.join(rights, select=merged, **how).map(thousandfold).execute_and_collect()
    assert sorted(pair["n"] for pair in pairs) == [101_000, 110_000, 201_000, 210_000]


@pytest.mark.parametrize("time", ["event", "latest"])
def test_a_lookup_may_change_the_version_it_found(time: Any) -> None:
    def merged(record: dict[str, Any], version: dict[str, Any]) -> Any:
        version["n"] += record["n"]
        return version["n"]

    env = environment()
    versions = timed(env, [{"k": "a", "n": 100, "at": 0}]).broadcast()
    records = timed(env, [{"k": "a", "n": 1, "at": at} for at in (1, 2, 3)])
    found = records.lookup(
        versions, key="k", on="k", time=time, select=merged, how="left" if time == "event" else "inner"
    )
    assert set(found.execute_and_collect()) <= {101}

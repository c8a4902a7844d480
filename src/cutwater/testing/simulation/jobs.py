"""Which jobs are simulated, and what is the right answer of each?

Small inputs and batches of a few records, so that a run is short and its interleavings are many. Each job comes with
its model: what state and output must be, as functions of the records that were read. The models are order-free where
the dataflow is: running counts put out the same (key, n) whatever the order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from random import Random
from typing import Any

from cutwater.graph.keys import KeySelector
from cutwater.graph.model import LogicalEdge, LogicalGraph, LogicalNode, NodeKind, Partitioning
from cutwater.operators.connect import BroadcastConnectOperator
from cutwater.operators.event_time import TimestampSelector
from cutwater.operators.keyed import RunningCount
from cutwater.operators.process import KeyedProcessOperator
from cutwater.operators.rows import FlatMapOperator, MapOperator
from cutwater.operators.sink import WriterOperator
from cutwater.operators.source import ReaderOperator
from cutwater.operators.union import PassOperator
from cutwater.protocol.event_time import WatermarkStrategy
from cutwater.protocol.modes import CheckpointMode
from cutwater.protocol.watermarks import MIN_TIMESTAMP_MS
from cutwater.testing.simulation import registry
from cutwater.testing.simulation.cases import Case, Read, States
from cutwater.testing.simulation.connectors import SimulatedSink, SimulatedSource
from cutwater.testing.simulation.event_time import SORTED_STATE, WAITING_STATE, SortByTime, WatchTime
from cutwater.testing.simulation.pipelines.case import draw_case, draw_restless_case

MAX_PARALLELISM = 16
WORDS = ("ant", "bee", "cat", "dog", "elk", "fox", "gnu", "hen", "ibis")


# What the functions of the jobs do.


def split_words(line: str) -> list[str]:
    registry.current().touch("split_words")
    return line.split()


def itself(record: Any) -> Any:
    return record


def first(record: Any) -> Any:
    return record[0]


def third(record: Any) -> Any:
    return record[2]


def passed_on(record: Any) -> Any:
    registry.current().touch("passed_on")
    return record


def second_modulo(divisor: int, record: Any) -> int:
    return int(record[1]) % divisor


class Collect:
    """Counts and keeps the numbers of each key."""

    def open(self, context: Any) -> None:
        self._seen = context.value_state("seen", 0)
        self._numbers = context.list_state("numbers")

    def process(self, record: Any, context: Any) -> Any:
        registry.current().touch("collect")
        self._seen.update(self._seen.value() + 1)
        self._numbers.add(record[1])
        yield record[0], self._seen.value()


class Repeat:
    """Puts every record out again, and counts it."""

    def open(self, context: Any) -> None:
        self._seen = context.value_state("seen", 0)

    def process(self, record: Any, context: Any) -> Any:
        registry.current().touch("repeat")
        self._seen.update(self._seen.value() + 1)
        yield record


class Obey:
    """Counts the records of each key; learns rules, and tells of each once per task."""

    def open(self, context: Any) -> None:
        self._seen = context.value_state("seen", 0)

    def process(self, record: Any, context: Any) -> Any:
        registry.current().touch("obey")
        self._seen.update(self._seen.value() + 1)
        yield record[0], self._seen.value()

    def process_broadcast(self, record: Any, context: Any) -> Any:
        context.broadcast_state[record] = context.broadcast_state.get(record, 0) + 1
        yield "rule", record, context.subtask


# How a graph is written down.


@dataclass(slots=True)
class _Builder:
    random: Random
    mode: CheckpointMode = CheckpointMode.EXACTLY_ONCE
    graph: LogicalGraph = field(default_factory=LogicalGraph)
    sources: dict[str, SimulatedSource] = field(default_factory=dict)
    sinks: list[str] = field(default_factory=list)
    #: The job is not rescaled.
    fixed_parallelism: bool = False

    def source(
        self,
        uid: str,
        splits: dict[str, list[Any]],
        parallelism: int,
        *,
        eager: bool = False,
        strategy: WatermarkStrategy | None = None,
        **more: Any,
    ) -> str:
        late = self.random.choice((0.0, 0.0, 0.03))
        # Splits of an eager source that are found late may hold records that time has passed by: no fault of ours.
        late = 0.0 if eager and strategy is not None else late
        source = self.sources[uid] = SimulatedSource(uid, splits, eager=eager, late_seconds=late, **more)
        limit = self.random.choice((1, 2, 4))
        timestamps = None if strategy is None else (TimestampSelector(function=third), strategy)
        build = partial(ReaderOperator, source, self.mode is CheckpointMode.NONE, timestamps, limit)
        self._add(uid, NodeKind.SOURCE, parallelism, build, source)
        return uid

    def operator(self, uid: str, parallelism: int, build: Callable[[], Any]) -> str:
        self._add(uid, NodeKind.OPERATOR, parallelism, build, None)
        return uid

    def sink(self, uid: str, parallelism: int) -> str:
        sink = SimulatedSink(uid)
        self.sinks.append(uid)
        self._add(uid, NodeKind.SINK, parallelism, partial(WriterOperator, sink, self.mode, 0.02), sink)
        return uid

    def edge(
        self,
        sender: str,
        receiver: str,
        partitioning: Partitioning = Partitioning.FORWARD,
        *,
        key: Callable[[Any], Any] | None = None,
        port: int = 0,
    ) -> None:
        selector = None if key is None else KeySelector(key)
        self.graph.edges.append(LogicalEdge(sender, receiver, partitioning, port, selector))

    def case(self, output: Callable[[Read], Counter[Hashable]], state: Callable[[Read], States], **more: Any) -> Case:
        return Case(self.graph, self.sources, tuple(self.sinks), output, state, self.mode, **more)

    def _add(self, uid: str, kind: NodeKind, parallelism: int, build: Callable[[], Any], connector: Any) -> None:
        self.graph.nodes[uid] = LogicalNode(
            uid,
            uid,
            kind,
            parallelism,
            build,
            connector,
            max_parallelism=MAX_PARALLELISM,
            parallelism_is_explicit=self.fixed_parallelism,
            uid_is_explicit=True,
        )


def _lines(random: Random, splits: int, lines: int) -> dict[str, list[Any]]:
    def line() -> str:
        return " ".join(random.choices(WORDS, k=random.randint(1, 3)))

    return {f"file{split}": [line() for _ in range(random.randint(0, lines))] for split in range(splits)}


def _pairs(random: Random, splits: int, records: int) -> dict[str, list[Any]]:
    numbers = iter(range(10**6))
    return {
        f"part{split}": [(random.choice(WORDS), next(numbers)) for _ in range(random.randint(0, records))]
        for split in range(splits)
    }


def _running_counts(keys: Counter[Any]) -> Counter[Hashable]:
    return Counter((key, n) for key, count in keys.items() for n in range(1, count + 1))


def _words(read: Read) -> Counter[Any]:
    return Counter(word for lines in read.values() for line in lines for word in line.split())


# The jobs.


def word_count(random: Random, *, mode: CheckpointMode = CheckpointMode.EXACTLY_ONCE) -> Case:
    """Lazy splits → words → count → sink."""
    parallelism = random.choice((1, 2, 2, 3))
    build = _Builder(random, mode)
    build.source("files", _lines(random, random.randint(2, 5), 24), parallelism)
    return _words_counted(build, readers=parallelism, counters=parallelism)


def _words_counted(build: _Builder, *, readers: int, counters: int) -> Case:
    build.operator("words", readers, partial(FlatMapOperator, split_words))
    build.operator("count", counters, partial(RunningCount, KeySelector(itself)))
    build.sink("out", counters)
    build.edge("files", "words")
    build.edge("words", "count", Partitioning.HASH, key=itself)
    build.edge("count", "out")
    return build.case(
        lambda read: _running_counts(_words(read)),
        lambda read: {("count", "count"): dict(_words(read))},
        ordered=True,
    )


def at_least_once(random: Random) -> Case:
    """The same, counted barriers."""
    return word_count(random, mode=CheckpointMode.AT_LEAST_ONCE)


def few_splits(random: Random) -> Case:
    """More source tasks than splits: some end at once, and their channels with them."""
    build = _Builder(random)
    build.source("files", _lines(random, random.randint(1, 2), 45), 4)
    return _words_counted(build, readers=4, counters=2)


def empty_source(random: Random) -> Case:
    """Nothing to read: nothing comes out, and the job ends."""
    build = _Builder(random)
    splits: dict[str, list[Any]] = random.choice(({}, {"empty": []}))
    build.source("files", splits, 2)
    build.operator("count", 2, partial(RunningCount, KeySelector(itself)))
    build.sink("out", 2)
    build.edge("files", "count", Partitioning.HASH, key=itself)
    build.edge("count", "out")
    return build.case(lambda read: Counter(), lambda read: {})


def union(random: Random) -> Case:
    """Two sources of different length meet: for a while one of two channels has ended."""
    parallelism = random.choice((1, 2))
    build = _Builder(random)
    build.source("short", _lines(random, 2, 3), parallelism)
    build.source("long", _lines(random, 3, 32), parallelism)
    build.operator("both", parallelism, PassOperator)
    build.operator("words", parallelism, partial(FlatMapOperator, split_words))
    build.operator("count", 2, partial(RunningCount, KeySelector(itself)))
    build.sink("out", 2)
    build.edge("short", "both")
    build.edge("long", "both", port=1)
    build.edge("both", "words")
    build.edge("words", "count", Partitioning.HASH, key=itself)
    build.edge("count", "out")
    return build.case(
        lambda read: _running_counts(_words(read)),
        lambda read: {("count", "count"): dict(_words(read))},
        ordered=True,
    )


def broadcast(random: Random) -> Case:
    """Records by key, and rules that every task learns."""
    parallelism = random.choice((2, 3))
    build = _Builder(random)
    build.fixed_parallelism = True  # the output tells the tasks apart
    build.source("records", _pairs(random, 4, 20), parallelism, eager=random.random() < 0.5)
    build.source("rules", {"rules": [f"rule{n}" for n in range(random.randint(0, 12))]}, 1)
    build.operator("obey", parallelism, partial(BroadcastConnectOperator, Obey(), KeySelector(first)))
    build.sink("out", parallelism)
    build.edge("records", "obey", Partitioning.HASH, key=first)
    build.edge("rules", "obey", Partitioning.BROADCAST, port=1)
    build.edge("obey", "out")

    def output(read: Read) -> Counter[Hashable]:
        counts = _running_counts(Counter(map(first, read["records"])))
        counts.update(("rule", rule, task) for rule in read["rules"] for task in range(parallelism))
        return counts

    return build.case(
        output,
        lambda read: {("obey", "seen"): dict(Counter(map(first, read["records"])))},
        broadcast=("obey", "rules"),
    )


def rebalance(random: Random) -> Case:
    """Rebalanced, then by key with value and list state, then rebalanced to a sink of another parallelism."""
    build = _Builder(random)
    build.source("records", _pairs(random, random.randint(2, 4), 28), 2, eager=random.random() < 0.5)
    build.operator("pass", 3, partial(MapOperator, passed_on))
    build.operator("collect", 2, partial(KeyedProcessOperator, KeySelector(first), Collect()))
    build.sink("out", random.choice((1, 3)))
    build.edge("records", "pass", Partitioning.REBALANCE)
    build.edge("pass", "collect", Partitioning.HASH, key=first)
    build.edge("collect", "out", Partitioning.REBALANCE)

    def state(read: Read) -> States:
        numbers: dict[Any, list[int]] = {}
        for key, number in read["records"]:
            numbers.setdefault(key, []).append(number)
        return {
            ("collect", "seen"): {key: len(values) for key, values in numbers.items()},
            ("collect", "numbers"): {key: sorted(values) for key, values in numbers.items()},
        }

    return build.case(lambda read: _running_counts(Counter(map(first, read["records"]))), state)


def deep(random: Random) -> Case:
    """Three shuffles in a row: barriers align three times, each time behind the slowest path."""
    build = _Builder(random)
    build.source("records", _pairs(random, 3, 24), 2)
    stages: Sequence[tuple[str, Callable[[Any], Any]]] = (
        ("by_word", first),
        ("by_three", partial(second_modulo, 3)),
        ("by_four", partial(second_modulo, 4)),
    )
    sender = "records"
    for uid, key in stages:
        build.operator(uid, 2, partial(RunningCount, KeySelector(key)))
        build.edge(sender, uid, Partitioning.HASH, key=key)
        sender = uid
    build.sink("out", 2)
    build.edge(sender, "out")

    def counts(read: Read) -> list[Counter[Any]]:
        records: Any = read["records"]
        found = []
        for _, key in stages:
            found.append(Counter(map(key, records)))
            records = list(_running_counts(found[-1]))
        return found

    return build.case(
        lambda read: _running_counts(counts(read)[-1]),
        lambda read: {(uid, "count"): dict(keys) for (uid, _), keys in zip(stages, counts(read), strict=True)},
        ordered=True,
    )


def at_most_once(random: Random) -> Case:
    """No checkpoints: nothing may come out twice."""
    build = _Builder(random, CheckpointMode.NONE)
    build.source("records", _pairs(random, 3, 28), 2, eager=random.random() < 0.5)
    build.operator("repeat", 2, partial(KeyedProcessOperator, KeySelector(first), Repeat()))
    build.sink("out", 2)
    build.edge("records", "repeat", Partitioning.HASH, key=first)
    build.edge("repeat", "out")
    return build.case(lambda read: Counter(chain.from_iterable(read.values())), lambda read: {})


# Jobs with event time.


def _timed(random: Random, splits: int, records: int, *, bound_ms: int, eager: bool) -> dict[str, list[Any]]:
    """(key, number, time) records, out of order by the bound at most; some have no time.

    The splits of an eager source cover the same time. Those of a lazy one follow each other: whoever reads one after
    the other must find later records in the next.
    """
    numbers = iter(range(10**6))
    found: dict[str, list[Any]] = {}
    begins_ms = 0
    for split in range(splits):
        now_ms = begins_ms
        found[f"part{split}"] = rows = []
        for _ in range(random.randint(0, records)):
            now_ms += random.choice((0, 1, 7, 20))
            time_ms = None if random.random() < 0.05 else now_ms - random.randint(0, bound_ms)
            rows.append((random.choice(WORDS), next(numbers), time_ms))
        begins_ms = begins_ms if eager else now_ms + bound_ms + 1
    return found


def _strategy(random: Random, bound_ms: int, **more: Any) -> WatermarkStrategy:
    every = random.choice((0.0, 0.0, 0.002, 0.05))
    return WatermarkStrategy("bounded", bound_ms, every_seconds=every, bad_timestamps="drop", **more)


def _by_time(read: Read) -> dict[str, list[tuple[int, int]]]:
    """By key: (time, number) in the order in which they must come out."""
    found: dict[str, list[tuple[int, int]]] = {}
    for key, number, time in chain.from_iterable(read.values()):
        if time is not None:
            found.setdefault(key, []).append((time, number))
    return {key: sorted(records) for key, records in found.items()}


def _ranked(read: Read) -> Counter[Hashable]:
    return Counter(
        (key, rank, number) for key, records in _by_time(read).items() for rank, (_, number) in enumerate(records, 1)
    )


def _sorted_cut(read: Read, state: States, output: Counter[Hashable]) -> str | None:
    """What has come out and what waits are what was read, and all that has come out is older."""
    waiting, counts = state.get(("sort", WAITING_STATE), {}), state.get(("sort", SORTED_STATE), {})
    for key, records in _by_time(read).items():
        out = counts.get(key, 0)
        if waiting.get(key, []) != records[out:]:
            return f"{key}: {waiting.get(key)} wait, expected {records[out:]}"
    ranked = {entry for entry in _ranked(read) if isinstance(entry, tuple) and entry[1] <= counts.get(entry[0], 0)}
    return None if output == Counter(ranked) else f"the output is {output}, expected {ranked}"


def _sorted_by_time(build: _Builder, senders: Sequence[str], tasks: int) -> Case:
    build.operator("sort", tasks, SortByTime)
    build.sink("out", tasks)
    for port, sender in enumerate(senders):
        build.edge(sender, "sort", Partitioning.HASH, key=first, port=port)
    build.edge("sort", "out")
    return build.case(_ranked, lambda read: {}, timed=True, cut=_sorted_cut)


def event_time(random: Random) -> Case:
    """Splits with clocks of their own → spread → by key → sorted by time."""
    build = _Builder(random)
    readers, bound_ms, eager = random.choice((1, 2, 2, 3)), random.choice((0, 15, 60)), random.random() < 0.5
    records = _timed(random, random.randint(2, 3), 40, bound_ms=bound_ms, eager=eager)
    build.source("records", records, readers, eager=eager, strategy=_strategy(random, bound_ms))
    build.operator("watch", readers, WatchTime)
    build.edge("records", "watch")
    sender = "watch"
    if random.random() < 0.3:
        sender = build.operator("spread", 2, WatchTime)
        build.edge("watch", "spread", Partitioning.REBALANCE)
    return _sorted_by_time(build, [sender], 2)


def aligned(random: Random) -> Case:
    """Two sources that wait for each other meet; one may have an older past than the other."""
    build = _Builder(random)
    bound_ms = random.choice((0, 10))
    for uid in ("left", "right"):
        readers = random.choice((1, 2))
        records = _timed(random, readers + random.choice((0, 1)), 12, bound_ms=bound_ms, eager=True)
        strategy = _strategy(random, bound_ms, max_drift_ms=random.choice((0, 30, 100)))
        build.source(uid, records, readers, eager=True, strategy=strategy)
    return _sorted_by_time(build, ["left", "right"], random.choice((1, 2)))


def idle(random: Random) -> Case:
    """A split that is silent, and ends only when event time has gone on without it; and a source that is not."""
    build = _Builder(random)
    bound_ms = random.choice((0, 10))
    steady = _timed(random, random.choice((1, 2)), 20, bound_ms=bound_ms, eager=True)
    other = _timed(random, 2, 12, bound_ms=bound_ms, eager=True)
    splits = [[time for _, _, time in rows if time is not None] for rows in (*steady.values(), *other.values())]
    # Where event time is when every other split has been read, whichever was the last.
    until_ms = min((max(times) - bound_ms - 1 for times in splits if times), default=0) if any(splits) else 0
    if not any(time is not None for rows in steady.values() for _, _, time in rows):
        until_ms = MIN_TIMESTAMP_MS  # only silence would be left, and it has no time
    steady = {split: rows for split, rows in steady.items() if rows} | {"quiet": []}
    strategy = _strategy(random, bound_ms, idle_after_seconds=0.01)
    build.source(
        "steady", steady, random.choice((1, 2)), eager=True, strategy=strategy, steady=True, quiet_until_ms=until_ms
    )
    build.source("other", other, 1, eager=True, strategy=_strategy(random, bound_ms))
    return _sorted_by_time(build, ["steady", "other"], 2)


def event_time_at_most_once(random: Random) -> Case:
    """Batches are held until the coordinator knows of them, and no watermark overtakes them meanwhile."""
    build = _Builder(random, CheckpointMode.NONE)
    bound_ms, eager = random.choice((0, 5, 40)), random.random() < 0.5
    records = _timed(random, 3, 24, bound_ms=bound_ms, eager=eager)
    build.source("records", records, 2, eager=eager, strategy=_strategy(random, bound_ms))
    build.operator("watch", 2, WatchTime)
    build.sink("out", 2)
    build.edge("records", "watch", Partitioning.HASH, key=first)
    build.edge("watch", "out")
    return build.case(
        lambda read: Counter(record for record in chain.from_iterable(read.values()) if record[2] is not None),
        lambda read: {},
        timed=True,
    )


JOBS: dict[str, Callable[[Random], Case]] = {
    "word_count": word_count,
    "union": union,
    "broadcast": broadcast,
    "rebalance": rebalance,
    "deep": deep,
    "few_splits": few_splits,
    "empty_source": empty_source,
    "at_least_once": at_least_once,
    "at_most_once": at_most_once,
    "event_time": event_time,
    "aligned": aligned,
    "idle": idle,
    "event_time_at_most_once": event_time_at_most_once,
    "pipeline": draw_case,
    "restless": draw_restless_case,
}
#: How often a seed draws each: one by hand as often as one of the grammar.
WEIGHTS = dict.fromkeys(JOBS, 4) | {"empty_source": 1, "aligned": 2, "idle": 2, "event_time_at_most_once": 2}
WEIGHTS |= {"pipeline": 40, "restless": 24}

"""Where do the rows of a drawn pipeline come from, and how do they come?

A source is drawn with all of its rows. Sources that keep their promises about event time never have a late row: their
disorder is within its bound, what is silent stays silent, and splits that are read one after the other follow each
other in time. Restless ones fall silent for longer than `idle_after` and then go on where they were.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Literal

import pyarrow as pa

from cutwater.api.environment import Environment
from cutwater.api.streams import DataStream
from cutwater.batches import Batch
from cutwater.connectors.contract import Discovery, ReaderContext, SplitReader
from cutwater.protocol.event_time import WatermarkStrategy
from cutwater.protocol.splits import Split
from cutwater.testing.simulation import registry
from cutwater.testing.simulation.connectors import SimulatedReader, SimulatedSource
from cutwater.testing.simulation.pipelines.folders import WatchedFolder
from cutwater.testing.simulation.pipelines.functions import everything
from cutwater.testing.simulation.pipelines.rows import KEYS, SCHEMA, Form, Row, objects_of, time_of, typed_of
from cutwater.testing.simulation.pipelines.stages import Site

Time = Literal["none", "kept", "restless"]
"""Without event time; with it, and promises about it are kept; or they are not."""

#: Times are even, and gaps of sessions odd. Of two records that are exactly the gap apart, whether they are of one
#: session depends on whether the watermark stops between them: the first session is over, and touches the second.
TICK_MS = 2
IDLE_AFTER_SECONDS = 0.01
RESTLESS_IDLE_AFTER_SECONDS = 0.002
#: Of splits that run ahead, and of those that bring a row now and then: silent in between, most of the time.
AHEAD_PAUSE_SECONDS = 0.0005
BEHIND_PAUSE_SECONDS = 0.0035
QUIET_SPLIT = "quiet"
#: What could be a watched folder is one so often.
WATCHED_RATE = 0.4
#: Files are one split each, or several.
SPLIT_BYTES = (1 << 20, 1 << 20, 150, 60)


@dataclass(frozen=True, slots=True)
class Pace:
    """How the rows of a split come."""

    #: At most so many at once.
    batch: int
    #: Never without a row before the end.
    steady: bool = False
    #: Behind every so many rows a pause, of this length on average.
    pause_every: int | None = None
    pause_seconds: float = 0.0
    #: How long a split without rows stays.
    quiet_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class DrawnSource:
    """A source of a pipeline: a value from which the stream is built, as often as it is asked for."""

    uid: str
    splits: dict[str, list[Row]]
    form: Form
    eager: bool
    pace: Pace
    #: Between the moments in which one split after the other is found.
    grows_every_seconds: float
    strategy: WatermarkStrategy | None
    #: Timestamps are assigned by an operator of their own, behind the source.
    timed_behind: bool = False
    #: Of a watched folder with a file for each of `splits`: the size of its splits.
    split_bytes: int | None = None

    @property
    def operator(self) -> str:
        """The uid of the source in the graph."""
        return f"{self.uid}-1"

    def describe(self) -> str:
        words = []
        if self.strategy is not None and self.strategy.idle_after_seconds is not None:
            words.append("restless" if self.pace.pause_every else "idle")
        elif self.pace.pause_every:
            words.append("slow")
        if self.split_bytes is not None:
            words.append("watched")
        elif self.grows_every_seconds:
            words.append("growing")
        words += [] if self.strategy is None else ["timed"]
        words.append(self.form)
        return f"{' '.join(words)} ({len(self.splits)} splits, {sum(map(len, self.splits.values()))} rows)"

    def build(self, env: Environment, site: Site) -> DataStream:
        stream = env.from_source(self.source(), **site.settings(self.uid))
        if self.strategy is None:
            return stream
        settings = site.settings(f"{self.uid}-times") if self.timed_behind else {}
        stream = stream.filter(everything, **site.settings(f"{self.uid}-all")) if self.timed_behind else stream
        if self.form == "typed":
            return stream.assign_timestamps("t", self.strategy, unit="ms", **settings)
        return stream.assign_timestamps(time_of, self.strategy, **settings)

    def source(self) -> PacedSource | WatchedFolder:
        if self.split_bytes is not None:
            grows_every, batch = self.grows_every_seconds, self.pace.batch
            return WatchedFolder(
                self.uid, self.splits, grows_every=grows_every, split_bytes=self.split_bytes, batch=batch
            )
        batch_of = typed_of if self.form == "typed" else objects_of
        schema = SCHEMA if self.form == "typed" else None
        return PacedSource(
            self.uid, self.splits, self.pace, batch_of, schema, eager=self.eager, grows_every=self.grows_every_seconds
        )


class PacedSource(SimulatedSource):
    """Finds its splits one after the other."""

    def __init__(
        self,
        label: str,
        splits: dict[str, list[Row]],
        pace: Pace,
        batch_of: Callable[[Sequence[Row]], Batch],
        schema: pa.Schema | None,
        *,
        eager: bool,
        grows_every: float,
    ) -> None:
        super().__init__(label, splits, eager=eager, late_seconds=0.0)
        self._pace = pace
        self._batch_of = batch_of
        self._schema = schema
        self._grows_every_seconds = grows_every

    @property
    def schema(self) -> pa.Schema | None:
        return self._schema

    def discover(self, parallelism: int) -> Discovery:
        run = registry.current()
        run.touch("discovery")
        names = list(self.splits)
        if not self._grows_every_seconds:
            return Discovery(tuple(Split(name, b"") for name in names), complete=True)
        found = min(len(names), 1 + int(run.world.now / self._grows_every_seconds))
        return Discovery(tuple(Split(name, b"") for name in names[:found]), complete=found == len(names))

    def reader(self, split: Split, position: Any, context: ReaderContext) -> SplitReader:
        index = 0 if position is None else position
        if split.id == QUIET_SPLIT:
            return SilentReader(self._pace.quiet_seconds)
        return PacedReader(self.splits[split.id], index, self._pace, self._batch_of)


class PacedReader(SimulatedReader):
    """Has hiccups as the conditions say, and pauses of its own."""

    def __init__(
        self,
        records: list[Any],
        index: int,
        pace: Pace,
        batch_of: Callable[[Sequence[Row]], Batch],
    ) -> None:
        super().__init__(records, index, steady=pace.steady)
        self._pace = pace
        self._batch_of = batch_of
        self._paused_at = index

    def read(self, limit: int, now_seconds: float) -> Batch | None:
        every = self._pace.pause_every
        if every is not None and self._index - self._paused_at >= every:
            self._paused_at = self._index
            self._hiccups.begin(now_seconds, self._pace.pause_seconds)
        batch = super().read(min(limit, self._pace.batch), now_seconds)
        return None if batch is None else self._batch_of(batch.values)


class SilentReader(SplitReader):
    """Never has a record, and ends after some time."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def read(self, limit: int, now_seconds: float) -> Batch | None:
        return None

    @property
    def position(self) -> int:
        return 0

    @property
    def finished(self) -> bool:
        return registry.current().world.now >= self._seconds


def draw_source(
    random: Random,
    uid: str,
    time: Time,
    form: Form,
    *,
    versions: bool = False,
    may_idle: bool = True,
    ahead: bool = True,
) -> DrawnSource:
    """`versions`: no two rows of a key at one time. `may_idle`: time may go on without a split that is silent.

    `ahead`: a restless one runs ahead of those that aren't.
    """
    if time == "restless":
        return draw_restless(random, uid, form, ahead=ahead)
    bound_ms = random.choice((0, 5, 40))
    quiet = time == "kept" and random.random() < 0.3
    eager = quiet or random.random() < 0.5
    splits = _draw_splits(random, bound_ms, eager=eager, timed=time == "kept", versions=versions)
    if quiet:
        splits[QUIET_SPLIT] = []
    idle_after = IDLE_AFTER_SECONDS if quiet and may_idle and random.random() < 0.7 else None
    every_seconds = random.choice((0.0, 0.0, 0.002, 0.05))
    strategy = None
    if time == "kept":
        strategy = WatermarkStrategy(
            "bounded", TICK_MS * bound_ms, every_seconds=every_seconds, idle_after_seconds=idle_after
        )
    # A split that is found late may be behind the others, unless it has to come after them.
    may_grow = time == "none" or not eager
    grows_every_seconds = random.choice((0.0, 0.0, 0.02)) if may_grow else 0.0
    pace = _draw_pace(random, steady=idle_after is not None)
    drawn = DrawnSource(uid, splits, form, eager, pace, grows_every_seconds, strategy)
    return drawn if eager or form == "typed" else _perhaps_watched(drawn)


def _perhaps_watched(drawn: DrawnSource) -> DrawnSource:
    """Chance of its own: all else that a seed draws is the same with either."""
    random = Random(repr(drawn.splits))
    if random.random() >= WATCHED_RATE:
        return drawn
    return replace(
        drawn, grows_every_seconds=random.choice((0.002, 0.01, 0.03)), split_bytes=random.choice(SPLIT_BYTES)
    )


def _draw_pace(random: Random, *, steady: bool) -> Pace:
    batch = random.choice((1, 2, 4, 8))
    quiet_seconds = random.choice((0.05, 0.2))
    if not steady and random.random() < 0.15:
        return Pace(batch, pause_every=8, pause_seconds=0.01, quiet_seconds=quiet_seconds)
    return Pace(batch, steady=steady, quiet_seconds=quiet_seconds)


def _draw_splits(random: Random, bound_ms: int, *, eager: bool, timed: bool, versions: bool) -> dict[str, list[Row]]:
    """Splits that are all read at once cover the same time; of others each begins where the one before has ended."""
    keys = KEYS[: random.choice((1, 3, len(KEYS)))]
    rows_max = 8 if versions else random.choice((6, 15, 30))
    splits: dict[str, list[Row]] = {}
    taken: set[tuple[str, int]] = set()
    begins_ms = number = 0
    for split in range(random.randint(1, 3)):
        now_ms = begins_ms
        rows = splits[f"part{split}"] = []
        for _ in range(random.randint(0, rows_max)):
            now_ms += random.choice((0, 1, 7, 20))
            key, time_ms = random.choice(keys), max(0, now_ms - random.randint(0, bound_ms))
            while versions and (key, time_ms) in taken:
                time_ms += 1
            taken.add((key, time_ms))
            now_ms = max(now_ms, time_ms)
            rows.append(Row(key, number, random.randint(0, 99), TICK_MS * time_ms if timed else 0))
            number += 1
        begins_ms = begins_ms if eager else now_ms + bound_ms + 1
    return splits


def draw_restless(random: Random, uid: str, form: Form, *, ahead: bool) -> DrawnSource:
    """Its splits run ahead, or bring a row now and then, and time doesn't wait for them in between."""
    splits: dict[str, list[Row]] = {}
    number = 0
    for split in range(2):
        now_ms = 0
        rows = splits[f"part{split}"] = []
        for _ in range(60 if ahead else 20):
            now_ms += random.choice((10, 14) if ahead else (5, 7))
            rows.append(Row(random.choice(KEYS), number, random.randint(0, 99), now_ms))
            number += 1
    strategy = WatermarkStrategy(
        "bounded", random.choice((0, 5)), every_seconds=0.0, idle_after_seconds=RESTLESS_IDLE_AFTER_SECONDS
    )
    pace = Pace(1, pause_every=1, pause_seconds=AHEAD_PAUSE_SECONDS if ahead else BEHIND_PAUSE_SECONDS)
    return DrawnSource(uid, splits, form, True, pace, 0.0, strategy, timed_behind=random.random() < 0.5)

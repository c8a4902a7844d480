"""How can two streams of a drawn pipeline meet?

Each way says what it makes of all rows of both sides, by brute force: joins are nested loops. None of them depends on
which side comes first.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from cutwater.api import windows
from cutwater.api.streams import DataStream
from cutwater.columns.expressions import col
from cutwater.testing.simulation.pipelines import functions
from cutwater.testing.simulation.pipelines.functions import paired, versioned
from cutwater.testing.simulation.pipelines.rows import Form, Row, key_of
from cutwater.testing.simulation.pipelines.stages import KeyStyle, Site, keyed, shown_key

JoinKind = Literal["inner", "left", "right", "full"]


class Meeting(ABC):
    """From two streams of one form to one."""

    gives: Form | None = "objects"
    #: Both streams must have event time, from sources that keep their promises.
    needs_time: bool = False

    @abstractmethod
    def describe(self) -> str: ...

    @abstractmethod
    def build(self, left: DataStream, right: DataStream, site: Site) -> DataStream: ...

    @abstractmethod
    def expect(self, left: list[Row], right: list[Row]) -> list[Row]: ...


@dataclass(frozen=True, slots=True)
class United(Meeting):
    gives: Form | None = None

    def describe(self) -> str:
        return "union"

    def build(self, left: DataStream, right: DataStream, site: Site) -> DataStream:
        return left.union(right)

    def expect(self, left: list[Row], right: list[Row]) -> list[Row]:
        return left + right


@dataclass(frozen=True, slots=True)
class Connected(Meeting):
    """One function with one state for both sides of a key. For streams without event time."""

    key: KeyStyle

    def describe(self) -> str:
        return f"connect by {shown_key(self.key)}"

    def build(self, left: DataStream, right: DataStream, site: Site) -> DataStream:
        both = keyed(left, self.key).connect(keyed(right, self.key))
        return both.process(functions.Both(), **site.settings("connect", keyed=True)).map(
            functions.without_time, **site.settings("timeless")
        )

    def expect(self, left: list[Row], right: list[Row]) -> list[Row]:
        return [
            Row(key, n, side, 0)
            for side, rows in ((1, left), (2, right))
            for key, count in Counter(row.k for row in rows).items()
            for n in range(1, count + 1)
        ]


@dataclass(frozen=True, slots=True)
class Ruled(Meeting):
    """The second stream is broadcast. For streams without event time."""

    key: KeyStyle

    def describe(self) -> str:
        return f"{shown_key(self.key)}, connect broadcast"

    def build(self, left: DataStream, right: DataStream, site: Site) -> DataStream:
        both = keyed(left, self.key).connect(right.broadcast())
        return both.process(functions.Learn(), **site.settings("learn", keyed=True)).map(
            functions.without_time, **site.settings("timeless")
        )

    def expect(self, left: list[Row], right: list[Row]) -> list[Row]:
        counts = Counter(row.k for row in left)
        counted = [Row(key, n, 0, 0) for key, count in counts.items() for n in range(1, count + 1)]
        return counted + [Row(row.k, row.n, -1, 0) for row in right]


@dataclass(frozen=True, slots=True)
class Joined(Meeting):
    """By key and time: within bounds (`lower`, `upper`), or in one tumbling window."""

    key: KeyStyle
    how: JoinKind
    bounds_ms: tuple[int, int] | None
    window_ms: int | None
    #: Without a function, on the columns of both sides.
    on_columns: bool
    needs_time: bool = True

    def describe(self) -> str:
        span = f"between {self.bounds_ms}" if self.window_ms is None else f"tumbling({self.window_ms})"
        return f"{self.how} join by {shown_key(self.key)} {span}" + (" on columns" if self.on_columns else "")

    def build(self, left: DataStream, right: DataStream, site: Site) -> DataStream:
        settings = site.settings("join", keyed=True)
        select = None if self.on_columns else functions.Pair(self.window_ms)
        between, window = None, None
        if self.bounds_ms is not None:
            between = (f"{self.bounds_ms[0]:+d}ms", f"{self.bounds_ms[1]:+d}ms")
        if self.window_ms is not None:
            window = windows.tumbling(f"{self.window_ms}ms")
        pairs = keyed(left, self.key).join(
            keyed(right, self.key), between=between, window=window, how=self.how, select=select, **settings
        )
        if not self.on_columns:
            return pairs
        renamed = pairs.with_columns(
            n=(col("n") + 1) * 10_000 + col("n_right") + 1, v=col("v") + col("v_right"), **site.settings("pair")
        )
        return renamed.map(functions.PairTime(self.window_ms), **site.settings("pair-time"))

    def expect(self, left: list[Row], right: list[Row]) -> list[Row]:
        pairs = [(one, other) for one in left for other in right if one.k == other.k and self._meet(one, other)]
        rows = [paired(one, other, self.window_ms) for one, other in pairs]
        if self.how in ("left", "full"):
            matched = {one for one, _ in pairs}
            rows += [paired(one, None, self.window_ms) for one in left if one not in matched]
        if self.how in ("right", "full"):
            matched = {other for _, other in pairs}
            rows += [paired(None, other, self.window_ms) for other in right if other not in matched]
        return rows

    def _meet(self, one: Row, other: Row) -> bool:
        if self.bounds_ms is not None:
            return self.bounds_ms[0] <= other.t - one.t <= self.bounds_ms[1]
        assert self.window_ms is not None
        return one.t // self.window_ms == other.t // self.window_ms


@dataclass(frozen=True, slots=True)
class LookedUp(Meeting):
    """Each row with the version that was valid at its time. Of two versions at one time none is the right one, so the
    second stream must have one at a time for each key."""

    key: KeyStyle
    by_key: bool
    how: Literal["inner", "left"]
    needs_time: bool = True

    def describe(self) -> str:
        return f"{self.how} lookup" + (f" by {shown_key(self.key)}" if self.by_key else "")

    def build(self, left: DataStream, right: DataStream, site: Site) -> DataStream:
        settings = site.settings("lookup", keyed=True)
        key: str | Callable[..., object] = "k" if self.key == "column" else key_of
        versions = right.broadcast()
        if self.by_key:
            keyed_left = keyed(left, self.key)
            return keyed_left.lookup(versions, on=key, how=self.how, select=functions.Version(), **settings)
        return left.lookup(versions, key=key, on=key, how=self.how, select=functions.Version(), **settings)

    def expect(self, left: list[Row], right: list[Row]) -> list[Row]:
        rows = []
        for row in left:
            valid = [version for version in right if version.k == row.k and version.t <= row.t]
            if valid or self.how == "left":
                rows.append(versioned(row, max(valid, key=lambda version: version.t, default=None)))
        return rows

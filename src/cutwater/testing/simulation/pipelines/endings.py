"""What can a drawn pipeline end in, and how is its output judged?

Some endings give outputs that the rows alone decide: those are compared one by one. Others answer each record with what
they know by then, so that the order of the records shows. They are judged by whether some order explains all outputs of
a key: counts go from 1 to n without a gap, and what the sums grew by are the values, each once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, NamedTuple

from cutwater.api import agg
from cutwater.api.streams import DataStream
from cutwater.state.ttl import Ttl
from cutwater.testing.simulation.pipelines import functions
from cutwater.testing.simulation.pipelines.rows import Form, Row, plain
from cutwater.testing.simulation.pipelines.stages import KeyStyle, Site, by_key, keyed, shown_key

Update = Literal["record", "batch", "10ms", "1s"]
_TOTALS = "totals"
TOTALS = f"{_TOTALS}-1"
"""The uid of `RunningTotals`."""
Found = Counter[Any]
"""Outputs as `plain` makes them, and how often each came."""


class Ending(ABC):
    """From rows to the output of the job."""

    takes: Form | None = None

    @abstractmethod
    def describe(self) -> str: ...

    @abstractmethod
    def build(self, stream: DataStream, site: Site) -> DataStream: ...

    @abstractmethod
    def judge(self, rows: list[Row], found: Found) -> str | None:
        """What is wrong with the output of all rows, each processed exactly once; None: nothing."""

    def expected(self, rows: list[Row]) -> Found | None:
        """The output, if the rows alone decide about it."""
        return None

    def owner(self, output: Any) -> Any:
        """The part of an output that doesn't change when records pass twice: of each there are never fewer."""
        return output


class Exact(Ending):
    """The rows alone decide."""

    @abstractmethod
    def expected(self, rows: list[Row]) -> Found: ...

    def judge(self, rows: list[Row], found: Found) -> str | None:
        return difference(self.expected(rows), found)


@dataclass(frozen=True, slots=True)
class AsTheyAre(Exact):
    """The rows themselves."""

    def describe(self) -> str:
        return ""

    def build(self, stream: DataStream, site: Site) -> DataStream:
        return stream

    def expected(self, rows: list[Row]) -> Found:
        return Counter(plain(row) for row in rows)


@dataclass(frozen=True, slots=True)
class Repeated(Exact):
    """Through a keyed function with state, unchanged."""

    key: KeyStyle

    def describe(self) -> str:
        return f"{shown_key(self.key)} → process(repeat)"

    def build(self, stream: DataStream, site: Site) -> DataStream:
        return keyed(stream, self.key).process(functions.Repeat(), **site.settings("repeat", keyed=True))

    def expected(self, rows: list[Row]) -> Found:
        return Counter(plain(row) for row in rows)


@dataclass(frozen=True, slots=True)
class Tallied(Ending):
    """A map of counts for each key. What expires is counted anew."""

    key: KeyStyle
    ttl_ms: int | None

    def describe(self) -> str:
        return f"{shown_key(self.key)} → process(map state{shown_ttl(self.ttl_ms)})"

    def build(self, stream: DataStream, site: Site) -> DataStream:
        return keyed(stream, self.key).process(
            functions.Tally(ttl_of(self.ttl_ms)), **site.settings("tally", keyed=True)
        )

    def expected(self, rows: list[Row]) -> Found | None:
        if self.ttl_ms is not None:
            return None
        counts = Counter((row.k, row.v % 3) for row in rows)
        return Counter((*owner, n) for owner, count in counts.items() for n in range(1, count + 1))

    def judge(self, rows: list[Row], found: Found) -> str | None:
        expected = self.expected(rows)
        if expected is not None:
            return difference(expected, found)
        counts = Counter((row.k, row.v % 3) for row in rows)
        wrong = difference(counts, Counter(output[:2] for output in found.elements()))
        if wrong:
            return wrong
        for *owner, n in sorted(found):
            if n > 1 and found[(*owner, n)] > found[(*owner, n - 1)]:
                return f"{owner} was counted to {n} more often than to {n - 1}"
        return None

    def owner(self, output: Any) -> Any:
        return output[:2]


class Total(NamedTuple):
    """What a running aggregate says after some record."""

    records: int
    total: int
    smallest: int | None = None
    largest: int | None = None
    mean: float | None = None


class Running(Ending):
    """A total for every record, or for some records together."""

    @property
    def every_record(self) -> bool:
        return True

    @abstractmethod
    def total_of(self, output: Any) -> tuple[str, Total]:
        """The key and the total that an output (as `plain` makes it) tells of."""

    def judge(self, rows: list[Row], found: Found) -> str | None:
        values = {key: [row.v for row in of_key] for key, of_key in by_key(rows).items()}
        totals: dict[str, list[Total]] = {}
        for output in found.elements():
            key, total = self.total_of(output)
            totals.setdefault(key, []).append(total)
        for key in sorted(values.keys() | totals.keys()):
            problem = unexplained(values.get(key, []), totals.get(key, []), every_record=self.every_record)
            if problem:
                return f"{key}: {problem}"
        return None

    def owner(self, output: Any) -> Any:
        return self.total_of(output)[0]


class Updated(Running):
    """A total for every record, or for the records of a batch or of a while together, as `update` says."""

    update: Update

    @property
    def every_record(self) -> bool:
        return self.update == "record"


def unexplained(values: list[int], totals: list[Total], *, every_record: bool) -> str | None:
    """Why no order of the values gives these totals; None: one does."""
    totals = sorted(totals)
    counts = [total.records for total in totals]
    if every_record and counts != list(range(1, len(values) + 1)):
        return f"counts are {counts}, expected 1 to {len(values)}"
    if len(set(counts)) != len(counts) or (counts[-1] if counts else 0) != len(values):
        return f"counts are {counts}, expected them to grow to {len(values)}"
    grown = [later.total - earlier.total for earlier, later in pairwise([Total(0, 0), *totals])]
    if every_record and sorted(grown) != sorted(values):
        return f"sums grow by {grown}, the values are {values}"
    if not every_record and sum(grown) != sum(values):
        return f"the last sum is {sum(grown)}, the values are {values}"
    return _unexplained_extremes(values, grown, totals, every_record=every_record)


def _unexplained_extremes(
    values: list[int], grown: list[int], totals: list[Total], *, every_record: bool
) -> str | None:
    if not totals or totals[0].smallest is None:
        return None
    for index, total in enumerate(totals):
        seen = grown[: index + 1] if every_record else values
        exact = every_record or index == len(totals) - 1
        if exact and (total.smallest, total.largest) != (min(seen), max(seen)):
            return f"{total} after {seen}"
        if total.mean is not None and abs(total.mean - total.total / total.records) > 1e-9:
            return f"the mean of {total} is another one"
    return None


@dataclass(frozen=True, slots=True)
class RunningTotals(Updated):
    """Built-in aggregates, on columns or on objects. `order` is that in which they are written."""

    key: KeyStyle
    update: Update
    order: tuple[str, ...]
    #: The names stand for aggregates of another column: a program that must not get this one's state.
    exchanged: bool = False

    def describe(self) -> str:
        return f"{shown_key(self.key)} → aggregate({','.join(self.order)}){shown_update(self.update)}"

    def build(self, stream: DataStream, site: Site) -> DataStream:
        column = "n" if self.exchanged else "v"
        of_column = {"c": agg.count(), "s": agg.sum(column), "lo": agg.min(column), "hi": agg.max(column)}
        of_column["m"] = agg.mean(column)
        aggregates: dict[str, Any] = {name: of_column[name] for name in self.order}
        settings = site.settings(_TOTALS, keyed=True)
        return keyed(stream, self.key).aggregate(update=self.update, **aggregates, **settings)

    def total_of(self, output: Any) -> tuple[str, Total]:
        named = dict(output)
        return key_in(named), Total(named["c"], named["s"], named.get("lo"), named.get("hi"), named.get("m"))


@dataclass(frozen=True, slots=True)
class ReducedInPlace(Updated):
    """A function that changes and returns its first argument; with a map behind that changes what it gets."""

    key: KeyStyle
    spoiled: bool
    update: Update = "record"
    takes: Form = "objects"

    def describe(self) -> str:
        reduced = f"{shown_key(self.key)} → reduce(in place){shown_update(self.update)}"
        return reduced + (" → map in place" if self.spoiled else "")

    def build(self, stream: DataStream, site: Site) -> DataStream:
        settings = site.settings("reduce", keyed=True)
        reduced = keyed(stream, self.key).reduce(functions.added_in_place, update=self.update, **settings)
        return reduced.map(functions.changed_in_place, **site.settings("spoiled")) if self.spoiled else reduced

    def total_of(self, output: Any) -> tuple[str, Total]:
        named = dict(output)
        return named["k"], Total(named.get("c", 1), named["v"] - (1000 if self.spoiled else 0))


@dataclass(frozen=True, slots=True)
class AggregatedInPlace(Updated):
    key: KeyStyle
    update: Update = "record"

    def describe(self) -> str:
        return f"{shown_key(self.key)} → aggregate(in place){shown_update(self.update)}"

    def build(self, stream: DataStream, site: Site) -> DataStream:
        settings = site.settings("aggregate", keyed=True)
        return keyed(stream, self.key).aggregate(functions.TotalInPlace(), update=self.update, **settings)

    def total_of(self, output: Any) -> tuple[str, Total]:
        named = dict(output)
        total = dict(named["result"])
        return key_in(named), Total(total["c"], total["v"])


@dataclass(frozen=True, slots=True)
class Remembered(Running):
    """Value state and list state."""

    key: KeyStyle

    def describe(self) -> str:
        return f"{shown_key(self.key)} → process(value, list state, ttl)"

    def build(self, stream: DataStream, site: Site) -> DataStream:
        function = functions.Remember(Ttl("1h"))  # longer than any run
        return keyed(stream, self.key).process(function, **site.settings("remember", keyed=True))

    def total_of(self, output: Any) -> tuple[str, Total]:
        key, total, values = output
        return key, Total(len(values), total, min(values), max(values), sum(values) / len(values))


@dataclass(frozen=True, slots=True)
class Folded(Running):
    """Reducing and aggregating state."""

    key: KeyStyle

    def describe(self) -> str:
        return f"{shown_key(self.key)} → process(reducing, aggregating state)"

    def build(self, stream: DataStream, site: Site) -> DataStream:
        return keyed(stream, self.key).process(functions.Fold(), **site.settings("fold", keyed=True))

    def total_of(self, output: Any) -> tuple[str, Total]:
        key, total, accumulated = output
        named = dict(accumulated)
        return key, Total(named["c"], total, None, None, total / named["c"] if named["v"] == total else -1.0)


@dataclass(frozen=True, slots=True)
class Delayed(Ending):
    """By timers of processing time: a record leaves once or, if the input ends before, never."""

    key: KeyStyle
    after_ms: int

    def describe(self) -> str:
        return f"{shown_key(self.key)} → process(processing timer +{self.after_ms})"

    def build(self, stream: DataStream, site: Site) -> DataStream:
        return keyed(stream, self.key).process(functions.Later(self.after_ms), **site.settings("later", keyed=True))

    def judge(self, rows: list[Row], found: Found) -> str | None:
        surplus = found - Counter(tuple(row) for row in rows)
        return f"too many {shown(surplus)}" if surplus else None


def shown_update(update: Update) -> str:
    return "" if update == "record" else f' by "{update}"'


def key_in(named: dict[str, Any]) -> Any:
    """Of a result: by its column, or as "key" where a function gave it."""
    return named["k" if "k" in named else "key"]


def ttl_of(milliseconds: int | None) -> Ttl | None:
    return None if milliseconds is None else Ttl(f"{milliseconds}ms")


def shown_ttl(milliseconds: int | None) -> str:
    return "" if milliseconds is None else f", ttl {milliseconds}"


def difference(expected: Found, found: Found) -> str | None:
    """What is missing and what is too many; None: nothing."""
    if expected == found:
        return None
    return f"missing {shown(expected - found)}, too many {shown(found - expected)}"


def shown(outputs: Counter[Any], most: int = 8) -> Sequence[Any]:
    return sorted(outputs.items(), key=str)[:most]


def elements(found: Found) -> Iterable[Any]:
    return sorted(found.elements(), key=str)

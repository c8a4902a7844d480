"""What can stand between the sources and the end of a drawn pipeline?

A stage is a value: how it is built with the public API, and what it makes of all rows, side by side. What it gives
depends on the rows alone, never on their order, so any stage can follow any other. Stages that keep nothing are here;
those by key are in `windows` and `joins`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Literal

from cutwater.api.dataflow import OperatorSettings
from cutwater.api.keyed import KeyedStream
from cutwater.api.streams import DataStream
from cutwater.columns.expressions import col
from cutwater.dead_letters import ERRORS
from cutwater.operators.failing import Tolerance
from cutwater.operators.user_code import name_of
from cutwater.retry import fixed
from cutwater.testing.simulation.pipelines import functions
from cutwater.testing.simulation.pipelines.rows import SCHEMA, Form, Row, key_of

KeyStyle = Literal["column", "function"]
FailingOperation = Literal["map", "async_map", "flat_map", "filter", "process"]
PARALLELISM_MAX = 4


@dataclass(slots=True)
class Site:
    """Where operators are put: what each is called, and how it is laid out. The names never depend on the layout."""

    layout: Random
    #: Operators with a key are called otherwise, so that their state finds nobody.
    renamed: bool = False
    _numbers: Counter[str] = field(default_factory=Counter)

    def settings(self, operation: str, *, keyed: bool = False) -> OperatorSettings:
        """Of the next operator of this kind: mostly the job's own parallelism, so that it can be rescaled."""
        self._numbers[operation] += 1
        name = f"{operation}-renamed" if self.renamed and keyed else operation
        made: OperatorSettings = {"uid": f"{name}-{self._numbers[operation]}"}
        if self.layout.random() < (0.2 if keyed else 0.1):
            made["parallelism"] = self.layout.randint(1, PARALLELISM_MAX)
        if self.layout.random() < 0.1:
            made["chaining"] = False
        return made


class Stage(ABC):
    """From rows to rows."""

    #: What the stream must be before, and what it is behind; None: any, and as it was.
    takes: Form | None = None
    gives: Form | None = None

    @property
    def keeps_rows(self) -> bool:
        """Rows may be in its own part of a snapshot, on their way to its output."""
        return False

    @abstractmethod
    def describe(self) -> str:
        """A few words for the line that stands for the pipeline."""

    @abstractmethod
    def build(self, stream: DataStream, site: Site) -> DataStream: ...

    @abstractmethod
    def expect(self, rows: list[Row]) -> list[Row]:
        """All rows that come out when all these have gone in, in any order."""


@dataclass(frozen=True, slots=True)
class Typed(Stage):
    """Objects become typed rows."""

    takes: Form = "objects"
    gives: Form = "typed"

    def describe(self) -> str:
        return "typed"

    def build(self, stream: DataStream, site: Site) -> DataStream:
        return stream.with_schema(SCHEMA, **site.settings("typed"))

    def expect(self, rows: list[Row]) -> list[Row]:
        return rows


@dataclass(frozen=True, slots=True)
class Untyped(Stage):
    """Typed rows become objects."""

    takes: Form = "typed"
    gives: Form = "objects"

    def describe(self) -> str:
        return "objects"

    def build(self, stream: DataStream, site: Site) -> DataStream:
        return stream.map(functions.to_dict, **site.settings("objects"))

    def expect(self, rows: list[Row]) -> list[Row]:
        return rows


@dataclass(frozen=True, slots=True)
class Doubled(Stage):
    """A map, in one of the ways to write it."""

    how: Literal["map", "in place", "columns", "batches"]
    takes: Form
    gives: Form

    def describe(self) -> str:
        return {"map": "map", "in place": "map in place", "columns": "with_columns", "batches": "map_batches"}[self.how]

    def build(self, stream: DataStream, site: Site) -> DataStream:
        settings = site.settings("doubled")
        match self.how:
            case "map":
                return stream.map(functions.doubled, **settings)
            case "in place":
                return stream.map(functions.doubled_in_place, **settings)
            case "columns":
                return stream.with_columns(v=col("v") * 2 + 1, **settings)
            case "batches":
                return stream.map_batches(functions.doubled_batch, schema=SCHEMA, **settings)

    def expect(self, rows: list[Row]) -> list[Row]:
        return [row._replace(v=2 * row.v + 1) for row in rows]


@dataclass(frozen=True, slots=True)
class Asked(Stage):
    """A map whose results take their time; some attempts are in vain."""

    ordered: bool
    capacity: int
    gives: Form = "objects"

    @property
    def keeps_rows(self) -> bool:
        return True

    def describe(self) -> str:
        return f"async_map({'' if self.ordered else 'un'}ordered, {self.capacity})"

    def build(self, stream: DataStream, site: Site) -> DataStream:
        retry = fixed(attempts=2, delay="1ms", on=(functions.Unready,))
        return stream.async_map(
            functions.Asked(), capacity=self.capacity, ordered=self.ordered, retry=retry, **site.settings("asked")
        )

    def expect(self, rows: list[Row]) -> list[Row]:
        return [row._replace(v=2 * row.v + 1) for row in rows]


@dataclass(frozen=True, slots=True)
class Filtered(Stage):
    by_expression: bool

    def describe(self) -> str:
        return "filter(v % 3 != 0)" if self.by_expression else "filter"

    def build(self, stream: DataStream, site: Site) -> DataStream:
        condition = col("v") % 3 != 0 if self.by_expression else functions.is_kept
        return stream.filter(condition, **site.settings("filter"))

    def expect(self, rows: list[Row]) -> list[Row]:
        return [row for row in rows if row.v % 3 != 0]


@dataclass(frozen=True, slots=True)
class Copied(Stage):
    """None, one or two records for each."""

    gives: Form = "objects"

    def describe(self) -> str:
        return "flat_map"

    def build(self, stream: DataStream, site: Site) -> DataStream:
        return stream.flat_map(functions.copies, **site.settings("copies"))

    def expect(self, rows: list[Row]) -> list[Row]:
        count = functions.COPIES
        return [row._replace(n=row.n * count + copy) for row in rows for copy in range(row.v % count)]


@dataclass(frozen=True, slots=True)
class Forked(Stage):
    """Two branches of one stream meet again; one of them changes its records in place."""

    takes: Form = "objects"

    def describe(self) -> str:
        return "two branches (one in place)"

    def build(self, stream: DataStream, site: Site) -> DataStream:
        changed = stream.map(functions.changed_in_place, **site.settings("changed"))
        copied = stream.map(functions.copied, **site.settings("copied"))
        return changed.union(copied)

    def expect(self, rows: list[Row]) -> list[Row]:
        changed = [row._replace(n=row.n * 2, v=row.v + 1000) for row in rows]
        return changed + [row._replace(n=row.n * 2 + 1) for row in rows]


@dataclass(frozen=True, slots=True)
class Aside(Stage):
    """Odd values take a side output, are changed there, and come back."""

    gives: Form = "objects"

    def describe(self) -> str:
        return "side output"

    def build(self, stream: DataStream, site: Site) -> DataStream:
        even = stream.process(functions.OddAside(), **site.settings("aside"))
        return even.union(even.side_output("odd").map(functions.doubled, **site.settings("doubled")))

    def expect(self, rows: list[Row]) -> list[Row]:
        return [row._replace(v=2 * row.v + 1) if row.v % 2 else row for row in rows]


@dataclass(frozen=True, slots=True)
class Failing(Stage):
    """A function fails on some rows: they are skipped, or come back as dead letters."""

    operation: FailingOperation
    on_error: Tolerance
    takes: Form | None
    gives: Form = "objects"

    @property
    def keeps_rows(self) -> bool:
        return self.operation == "async_map"

    def describe(self) -> str:
        return f"{self.operation}(on_error={self.on_error})"

    def build(self, stream: DataStream, site: Site) -> DataStream:
        settings = site.settings("failing")
        failing: DataStream
        match self.operation:
            case "map":
                failing = good = stream.map(functions.risky_row, on_error=self.on_error, **settings)
            case "async_map":
                failing = good = stream.async_map(functions.risky_answer, on_error=self.on_error, **settings)
            case "flat_map":
                failing = good = stream.flat_map(functions.risky_rows, on_error=self.on_error, **settings)
            case "filter":
                failing = good = stream.filter(functions.risky_condition, on_error=self.on_error, **settings)
            case "process":
                failing = stream.process(functions.Risky(), on_error=self.on_error, **settings)
                good = failing.union(failing.side_output("beside"))
        if self.on_error == "skip":
            return good
        letters = failing.side_output(ERRORS)
        # Like the good rows of a process, so that no two rows are alike.
        row_of_letter = functions.doubled_letter_row if self.operation == "process" else functions.letter_row
        return good.union(letters.map(row_of_letter, **site.settings("letters")))

    def expect(self, rows: list[Row]) -> list[Row]:
        good = [row for row in rows if not functions.fails(row)]
        if self.operation == "process":
            good = [row._replace(n=row.n * 2 + copy) for row in good for copy in range(2)]
        if self.on_error == "skip":
            return good
        factor = 2 if self.operation == "process" else 1
        return good + [row._replace(n=row.n * factor, v=5 * row.v) for row in rows if functions.fails(row)]


@dataclass(frozen=True, slots=True)
class Rebalanced(Stage):
    def describe(self) -> str:
        return "rebalance"

    def build(self, stream: DataStream, site: Site) -> DataStream:
        return stream.rebalance()

    def expect(self, rows: list[Row]) -> list[Row]:
        return rows


@dataclass(frozen=True, slots=True)
class Passed(Stage):
    """An operator that a changed program has and the old one hasn't."""

    def describe(self) -> str:
        return "pass"

    def build(self, stream: DataStream, site: Site) -> DataStream:
        return stream.filter(functions.everything, **site.settings("passed"))

    def expect(self, rows: list[Row]) -> list[Row]:
        return rows


@dataclass(frozen=True, slots=True)
class RunningCounts(Stage):
    """How many of each key so far: the same numbers whatever the order. For streams without event time."""

    key: KeyStyle
    gives: Form = "objects"

    def describe(self) -> str:
        return f"{shown_key(self.key)} → count"

    def build(self, stream: DataStream, site: Site) -> DataStream:
        counted = keyed(stream, self.key).count(**site.settings("count", keyed=True))
        return counted.map(functions.counted_row, **site.settings("counted"))

    def expect(self, rows: list[Row]) -> list[Row]:
        counts = Counter(row.k for row in rows)
        return [Row(key, n, n, 0) for key, count in counts.items() for n in range(1, count + 1)]


def keyed(stream: DataStream, style: KeyStyle) -> KeyedStream:
    return stream.key_by("k" if style == "column" else key_of)


def shown_key(style: KeyStyle) -> str:
    return "key k" if style == "column" else f"key {name_of(key_of)}()"


def by_key(rows: list[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.k, []).append(row)
    return found

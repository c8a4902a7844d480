"""Which windows can a drawn pipeline have, and what is in them?

Brute force: every row is asked for every window. As stages they see sources that keep their promises about time, so
no row is ever late and every window fires once. Where sources fall silent and come back, rows may be late with every
right: `RestlessWindows` then judges what has become of each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from cutwater.api import agg, triggers, windows
from cutwater.api.streams import DataStream
from cutwater.api.windowed import WindowedStream
from cutwater.testing.simulation.pipelines import functions
from cutwater.testing.simulation.pipelines.endings import Ending, Exact, Found, difference, elements, shown
from cutwater.testing.simulation.pipelines.rows import Form, Row
from cutwater.testing.simulation.pipelines.stages import KeyStyle, Site, Stage, by_key, keyed, shown_key

Fold = Literal["aggregate(count,sum)", "aggregate(in place)", "reduce(in place)", "process"]
FOLDS: tuple[Fold, ...] = ("aggregate(count,sum)", "aggregate(in place)", "reduce(in place)", "process")


@dataclass(frozen=True, slots=True)
class Cut:
    """How time is cut: windows of a size, of which one begins every so often; or sessions with a gap of this size."""

    size_ms: int
    every_ms: int | None

    def describe(self) -> str:
        if self.every_ms is None:
            return f"session({self.size_ms})"
        return f"tumbling({self.size_ms})" if self.is_tumbling else f"sliding({self.size_ms},{self.every_ms})"

    @property
    def is_tumbling(self) -> bool:
        return self.every_ms == self.size_ms

    def assigner(self) -> Any:
        if self.every_ms is None:
            return windows.session(f"{self.size_ms}ms")
        if self.is_tumbling:
            return windows.tumbling(f"{self.size_ms}ms")
        return windows.sliding(f"{self.size_ms}ms", every=f"{self.every_ms}ms")

    def windows_of(self, rows: list[Row]) -> Iterator[tuple[int, int, list[Row]]]:
        """(start, end, rows) of all windows of one key."""
        return self._sessions(rows) if self.every_ms is None else self._aligned(rows)

    def starts_of(self, time_ms: int) -> range:
        """Of the aligned windows that this time is in, the last one first."""
        assert self.every_ms is not None
        return range(time_ms // self.every_ms * self.every_ms, time_ms - self.size_ms, -self.every_ms)

    def _aligned(self, rows: list[Row]) -> Iterator[tuple[int, int, list[Row]]]:
        for start in sorted({start for row in rows for start in self.starts_of(row.t)}):
            yield start, start + self.size_ms, [row for row in rows if start <= row.t < start + self.size_ms]

    def _sessions(self, rows: list[Row]) -> Iterator[tuple[int, int, list[Row]]]:
        session: list[Row] = []
        for row in sorted(rows, key=lambda row: row.t):
            if session and row.t > session[-1].t + self.size_ms:
                yield session[0].t, session[-1].t + self.size_ms, session
                session = []
            session.append(row)
        if session:
            yield session[0].t, session[-1].t + self.size_ms, session


@dataclass(frozen=True, slots=True)
class Windows(Stage):
    """One row for every key and window: its start and count in one number, and the sum of what is in it."""

    cut: Cut
    fold: Fold
    key: KeyStyle
    late_output: bool
    takes: Form | None
    gives: Form = "objects"

    def describe(self) -> str:
        late = ".late_output" if self.late_output else ""
        return f"{shown_key(self.key)} → {self.cut.describe()}{late}.{self.fold}"

    def build(self, stream: DataStream, site: Site) -> DataStream:
        windowed = keyed(stream, self.key).window(self.cut.assigner())
        results = folded(windowed.late_output("late") if self.late_output else windowed, self.fold, site)
        rows = results.map(functions.window_row, **site.settings("window-row"))
        if not self.late_output:
            return rows
        return rows.union(results.side_output("late").map(functions.marked_late, **site.settings("late")))

    def expect(self, rows: list[Row]) -> list[Row]:
        return [
            Row(key, start * 1000 + len(inside), sum(row.v for row in inside), end - 1)
            for key, of_key in by_key(rows).items()
            for start, end, inside in self.cut.windows_of(of_key)
        ]


@dataclass(frozen=True, slots=True)
class Alarmed(Stage):
    """A timer of event time behind every record: one row for each time of a key at which there is one."""

    key: KeyStyle
    after_ms: int
    gives: Form = "objects"

    def describe(self) -> str:
        return f"{shown_key(self.key)} → process(event timer +{self.after_ms})"

    def build(self, stream: DataStream, site: Site) -> DataStream:
        return keyed(stream, self.key).process(functions.Alarm(self.after_ms), **site.settings("alarm", keyed=True))

    def expect(self, rows: list[Row]) -> list[Row]:
        return [Row(key, 0, 1, time + self.after_ms) for key, time in sorted({(row.k, row.t) for row in rows})]


@dataclass(frozen=True, slots=True)
class RestlessWindows(Ending):
    """Behind sources that fall silent and come back: what is late is handed out, and nothing is lost or counted twice.

    Without lateness every window fires once; with it, each time with more in it.
    """

    cut: Cut
    fold: Fold
    key: KeyStyle
    lateness_ms: int
    takes: Form | None

    def describe(self) -> str:
        lateness = f".allowed_lateness({self.lateness_ms})" if self.lateness_ms else ""
        return f"{shown_key(self.key)} → {self.cut.describe()}{lateness}.late_output.{self.fold}"

    def build(self, stream: DataStream, site: Site) -> DataStream:
        windowed = keyed(stream, self.key).window(self.cut.assigner()).late_output("late")
        if self.lateness_ms:
            windowed = windowed.allowed_lateness(f"{self.lateness_ms}ms")
        results = folded(windowed, self.fold, site)
        late = results.side_output("late").map(functions.tagged_late, **site.settings("late"))
        return results.map(functions.tagged_result, **site.settings("result")).union(late)

    def judge(self, rows: list[Row], found: Found) -> str | None:
        late = Counter(Row(*output[1:]) for output in found.elements() if output[0] == "late")
        unknown = late - Counter(rows)
        if unknown:
            return f"late, but never read: {shown(unknown)}"
        fired = [output[1:] for output in elements(found) if output[0] == "window"]
        in_time = list((Counter(rows) - late).elements())
        if self.cut.every_ms is None:
            return None if self.lateness_ms else self._judge_sums(in_time, fired)
        return self._judge_firings(rows, in_time, fired)

    def _judge_firings(self, rows: list[Row], in_time: list[Row], fired: list[Any]) -> str | None:
        counts: dict[tuple[str, int], list[tuple[int, int]]] = {}
        for key, start, _, count, total in fired:
            counts.setdefault((key, start), []).append((count, total))
        at_most = Counter((row.k, start) for row in rows for start in self.cut.starts_of(row.t))
        at_least = Counter((row.k, self.cut.starts_of(row.t)[0]) for row in in_time)
        for window in sorted(counts.keys() | at_least.keys()):
            firings = sorted(counts.get(window, []))
            if len(firings) > 1 and (not self.lateness_ms or len({count for count, _ in firings}) < len(firings)):
                return f"{window} fires {len(firings)} times: {firings}"
            count = firings[-1][0] if firings else 0
            if not at_least[window] <= count <= at_most[window]:
                return f"{window} has {count} records, of {at_least[window]} to {at_most[window]}"
        last = [(key, start, 0, *max(firings)) for (key, start), firings in sorted(counts.items())]
        return self._judge_sums(in_time, last) if self.cut.is_tumbling else None

    def _judge_sums(self, in_time: list[Row], fired: list[Any]) -> str | None:
        """Each record in time is in exactly one window."""
        expected, had = Counter[str](), Counter[str]()
        for row in in_time:
            expected.update({f"count of {row.k}": 1, f"sum of {row.k}": row.v})
        for key, _, _, count, total in fired:
            had.update({f"count of {key}": count, f"sum of {key}": total})
        return difference(expected, had)


@dataclass(frozen=True, slots=True)
class CountWindows(Ending):
    """Windows of so many records. Which records meet in one depends on their order; how many and how much do not."""

    key: KeyStyle
    size: int
    fold: Fold
    takes: Form | None

    def describe(self) -> str:
        return f"{shown_key(self.key)} → count_window({self.size}).{self.fold}"

    def build(self, stream: DataStream, site: Site) -> DataStream:
        return _results(keyed(stream, self.key).window(windows.count_window(self.size)), self.fold, site)

    def judge(self, rows: list[Row], found: Found) -> str | None:
        of_key = by_key(rows)
        expected = Counter({(key, self.size): len(values) // self.size for key, values in of_key.items()})
        wrong = difference(+expected, Counter((output[0], output[3]) for output in found.elements()))
        if wrong:
            return wrong
        sums: Counter[str] = Counter()
        for key, *_, total in found.elements():
            sums[key] += total
        for key, values in sorted(of_key.items()):
            ranked = sorted(row.v for row in values)
            full = len(values) // self.size * self.size
            if not sum(ranked[:full]) <= sums[key] <= sum(ranked[len(ranked) - full :]):
                return f"the windows of {key} have the sum {sums[key]}"
        return None


@dataclass(frozen=True, slots=True)
class GlobalWindow(Exact):
    """Everything in one window, which fires at every so many records, and then begins anew or doesn't."""

    key: KeyStyle
    every: int
    purging: bool

    def describe(self) -> str:
        trigger = f"count({self.every})"
        return f"{shown_key(self.key)} → global.trigger({f'purging {trigger}' if self.purging else trigger})"

    def build(self, stream: DataStream, site: Site) -> DataStream:
        trigger = triggers.count(self.every)
        windowed = keyed(stream, self.key).window(windows.global_window())
        windowed = windowed.trigger(triggers.purging(trigger) if self.purging else trigger)
        counted = windowed.count(**site.settings("global", keyed=True))
        return counted.map(functions.as_pair, **site.settings("counted"))

    def expected(self, rows: list[Row]) -> Found:
        return Counter(
            (key, self.every if self.purging else self.every * firing)
            for key, of_key in by_key(rows).items()
            for firing in range(1, len(of_key) // self.every + 1)
        )


@dataclass(frozen=True, slots=True)
class ProcessingWindows(Ending):
    """Windows of the wall clock: every record is in one of them."""

    key: KeyStyle
    size_ms: int
    fold: Fold
    takes: Form | None

    def describe(self) -> str:
        return f"{shown_key(self.key)} → tumbling({self.size_ms}, processing).{self.fold}"

    def build(self, stream: DataStream, site: Site) -> DataStream:
        assigner = windows.tumbling(f"{self.size_ms}ms", time="processing")
        return _results(keyed(stream, self.key).window(assigner), self.fold, site)

    def judge(self, rows: list[Row], found: Found) -> str | None:
        twice = [window for window, times in Counter(output[:2] for output in found.elements()).items() if times > 1]
        if twice:
            return f"{min(twice)} fires twice"
        expected, had = Counter[str](), Counter[str]()
        for row in rows:
            expected.update({f"count of {row.k}": 1, f"sum of {row.k}": row.v})
        for key, _, _, count, total in found.elements():
            had.update({f"count of {key}": count, f"sum of {key}": total})
        return difference(expected, had)


@dataclass(frozen=True, slots=True)
class EarlyResults(Ending):
    """Windows that also fire on their way: each time with no less in it, at last with everything."""

    cut: Cut
    key: KeyStyle
    interval_ms: int

    def describe(self) -> str:
        return f"{shown_key(self.key)} → {self.cut.describe()}.trigger(continuous_event({self.interval_ms}))"

    def build(self, stream: DataStream, site: Site) -> DataStream:
        windowed = keyed(stream, self.key).window(self.cut.assigner())
        windowed = windowed.trigger(triggers.continuous_event(f"{self.interval_ms}ms"))
        return _results(windowed, "aggregate(count,sum)", site)

    def judge(self, rows: list[Row], found: Found) -> str | None:
        expected = {
            (key, start): (len(inside), sum(row.v for row in inside))
            for key, of_key in by_key(rows).items()
            for start, _, inside in self.cut.windows_of(of_key)
        }
        last: dict[Any, tuple[int, int]] = {}
        for key, start, _, count, total in found.elements():
            last[key, start] = max(last.get((key, start), (0, 0)), (count, total))
        return difference(Counter(expected.items()), Counter(last.items()))


def folded(windowed: WindowedStream, fold: Fold, site: Site) -> DataStream:
    """The windows' results, in the shape that the fold gives: see `functions.window_result`."""
    settings = site.settings("window", keyed=True)
    match fold:
        case "aggregate(count,sum)":
            return windowed.aggregate(c=agg.count(), v=agg.sum("v"), **settings)
        case "aggregate(in place)":
            return windowed.aggregate(functions.TotalInPlace(), **settings)
        case "reduce(in place)":
            return windowed.reduce(functions.added_in_place, process=functions.reduced_window, **settings)
        case "process":
            return windowed.process(functions.window_total, **settings)


def _results(windowed: WindowedStream, fold: Fold, site: Site) -> DataStream:
    return folded(windowed, fold, site).map(functions.window_result, **site.settings("result"))

"""What does a user's function count? `context.metrics`

>>> metrics = UserMetrics("parse")
>>> bad = metrics.counter("bad_lines")
>>> bad.inc()
>>> [(metric.name, metric.value) for metric in metrics.told()]
[('bad_lines', 1.0)]
"""

from __future__ import annotations

import logging
import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import pairwise
from math import isfinite
from typing import Final, Literal, TypeVar

import msgspec

from cutwater.errors import UserError

MetricKind = Literal["counter", "gauge", "histogram"]

METRICS_MAX: Final = 100
"""Of one operator: a name made of data would otherwise grow without end."""
BUCKETS_MAX: Final = 100
SECONDS_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,99}")
_log = logging.getLogger(__name__)


class UserMetric(msgspec.Struct, array_like=True):
    """One metric at one moment, on its way to the driver. The fields are those of `status.MetricStatus`."""

    name: str
    kind: MetricKind
    value: float
    count: int = 0
    bounds: tuple[float, ...] = ()
    counts: tuple[int, ...] = ()


class Counter:
    """A number that grows."""

    __slots__ = ("_value",)

    def __init__(self) -> None:
        self._value: float = 0

    @property
    def value(self) -> float:
        return self._value

    def inc(self, n: float = 1) -> None:
        if not n >= 0:
            raise UserError(f"a counter can't be increased by {n!r}", hint="for what goes up and down use a gauge")
        self._value += n

    def _told(self, name: str) -> UserMetric:
        return UserMetric(name, "counter", float(self._value))


class Gauge:
    """A number that goes up and down. It is 0 until it is set."""

    __slots__ = ("_function", "_value")

    def __init__(self, function: Callable[[], float] | None = None) -> None:
        self._value = 0.0
        self._function = function

    @property
    def value(self) -> float:
        return self._value if self._function is None else float(self._function())

    def set(self, value: float) -> None:
        self._value = float(value)
        self._function = None

    def _told(self, name: str) -> UserMetric:
        return UserMetric(name, "gauge", self.value)


class Histogram:
    """How many values are at most as large as each bound."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    @property
    def count(self) -> int:
        return sum(self._counts)

    def observe(self, value: float) -> None:
        if not isfinite(value):
            raise UserError(f"a histogram can't take in {value!r}", hint="observe finite numbers")
        self._sum += value
        self._counts[bisect_left(self._bounds, value)] += 1

    def _told(self, name: str) -> UserMetric:
        return UserMetric(name, "histogram", float(self._sum), self.count, self._bounds, tuple(self._counts))


Metric = TypeVar("Metric", Counter, Gauge, Histogram)


class UserMetrics:
    """The metrics of a user's function in one task; `context.metrics`.

    All begin at 0 with each attempt: they are no state, and are in no snapshot. Ask for them in `open` and keep what
    you get: an increment is an addition then, and nothing else. `job.status()` has them a moment later, by task and
    operator, and so has the control service.

    Used by the thread that calls the function. Only `told` may be called on another one.
    """

    def __init__(self, operator: str = "") -> None:
        self._operator = operator
        self._metrics: dict[str, Counter | Gauge | Histogram] = {}
        self._failed: set[str] = set()

    def counter(self, name: str) -> Counter:
        """A number that grows: `context.metrics.counter("bad_lines").inc()`."""
        return self._metric(name, Counter, Counter)

    def gauge(self, name: str, function: Callable[[], float] | None = None) -> Gauge:
        """A number that goes up and down: `.set(value)`, or a function that is asked for it four times a second.

        The function is called between two batches and must be quick. While it fails, the gauge is left out."""
        if function is not None and not callable(function):
            raise UserError(f'gauge "{name}" needs a function, not {function!r}', hint="or set it: gauge(name).set(v)")
        gauge = self._metric(name, Gauge, Gauge)
        if function is not None:
            gauge._function = function
        return gauge

    def histogram(self, name: str, buckets: Sequence[float] | None = None) -> Histogram:
        """How values are distributed: `.observe(seconds)`. `buckets` are the upper ends of the buckets, ascending; by
        default from 5 ms to 10 s, for times in seconds."""
        bounds = SECONDS_BUCKETS if buckets is None else _checked_bounds(name, buckets)
        histogram = self._metric(name, Histogram, lambda: Histogram(bounds))
        if buckets is not None and histogram._bounds != bounds:
            raise UserError(
                f'histogram "{name}" of operator "{self._operator}" already has other buckets',
                detail=f"it has {histogram._bounds}, now {bounds} are asked for",
            )
        return histogram

    def told(self) -> list[UserMetric]:
        """All of them as they are now. What isn't a finite number is left out."""
        if not self._metrics:
            return []
        told = [self._told(name, metric) for name, metric in list(self._metrics.items())]
        return [metric for metric in told if metric is not None and isfinite(metric.value)]

    def _told(self, name: str, metric: Counter | Gauge | Histogram) -> UserMetric | None:
        try:
            return metric._told(name)
        except Exception:  # of a user's function: a gauge is not worth a job
            if name not in self._failed:
                self._failed.add(name)
                _log.warning('gauge "%s" of operator "%s" fails and is left out', name, self._operator, exc_info=True)
            return None

    def _metric(self, name: str, kind: type[Metric], make: Callable[[], Metric]) -> Metric:
        known = self._metrics.get(name) if isinstance(name, str) else None
        if known is None:
            self._check_new(name)
            known = self._metrics[name] = make()
        if not isinstance(known, kind):
            raise UserError(
                f'metric "{name}" of operator "{self._operator}" is a {type(known).__name__.lower()}, '
                f"not a {kind.__name__.lower()}",
                hint="give each metric a name of its own",
            )
        return known

    def _check_new(self, name: str) -> None:
        if not isinstance(name, str) or _NAME.fullmatch(name) is None:
            raise UserError(
                f'operator "{self._operator}" has a metric whose name can\'t be used: {name!r}',
                hint="letters, digits and underscores, at most 100, not beginning with a digit: bad_lines_total",
            )
        if len(self._metrics) >= METRICS_MAX:
            raise UserError(
                f'operator "{self._operator}" has more than {METRICS_MAX} metrics',
                detail=f'the next one is "{name}"',
                hint="don't make names from data: count by key in state, and emit the counts",
            )


def _checked_bounds(name: str, buckets: Sequence[float]) -> tuple[float, ...]:
    try:
        bounds = tuple(float(bound) for bound in buckets)
    except (TypeError, ValueError):
        bounds = ()
    ascending = all(lower < upper for lower, upper in pairwise(bounds))
    if not 0 < len(bounds) <= BUCKETS_MAX or not ascending or not all(map(isfinite, bounds)):
        raise UserError(
            f'the buckets of histogram "{name}" must be 1 to {BUCKETS_MAX} ascending numbers',
            detail=f"they are {buckets!r}",
        )
    return bounds

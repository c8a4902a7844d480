"""Which aggregates does Cutwater know by itself?

Built-in aggregates have a columnar form and a form on Python values; several of them run in one pass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

AggregationKind = Literal["count", "sum", "min", "max", "mean"]

#: What of a record counts: None, all of it; a column, field or position; or a function of it.
ValueSelector = str | int | Callable[[Any], Any] | None


@dataclass(frozen=True, slots=True)
class Aggregation:
    """One built-in aggregate of one value of each record; `count` counts records and takes no value.

    On a typed column a null value counts for nothing, as in SQL: a sum of nulls alone is null.
    """

    kind: AggregationKind
    value: ValueSelector = None

    @property
    def described(self) -> str:
        """In a snapshot: what is aggregated. Of a function nothing is known."""
        return f"{self.kind} of {self.value}" if isinstance(self.value, str | int) else self.kind


def summand(value: Any) -> Any:
    """The first value of a sum. Python could join texts with +, but numbers that were read as texts are more likely."""
    if isinstance(value, str | bytes):
        raise TypeError(f"{value!r:.40} can't be summed: convert texts to numbers before; to join texts, use reduce")
    return value


# A NaN is larger than any number, as in Spark: which value is the smallest or largest never depends on their order.


def is_smaller(value: Any, current: Any) -> bool:
    """Whether `value` takes the place of the smallest so far."""
    return bool(value < current or current != current)  # a NaN differs from itself


def is_larger(value: Any, current: Any) -> bool:
    """Whether `value` takes the place of the largest so far."""
    return bool(value > current or value != value)

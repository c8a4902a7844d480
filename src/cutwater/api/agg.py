"""Which built-in aggregates can run together in one pass?

stream.key_by("city").window(cw.tumbling("1h")).aggregate(orders=cw.agg.count(), revenue=cw.agg.sum("price"))
"""

from __future__ import annotations

from cutwater.operators.aggregations import Aggregation, ValueSelector


def count() -> Aggregation:
    """How many records."""
    return Aggregation("count")


def sum(value: ValueSelector = None) -> Aggregation:  # noqa: A001 — the word that everyone uses
    """The sum of a column or field, of what a function picks, or of the records themselves."""
    return Aggregation("sum", value)


def min(value: ValueSelector = None) -> Aggregation:  # noqa: A001
    """The smallest."""
    return Aggregation("min", value)


def max(value: ValueSelector = None) -> Aggregation:  # noqa: A001
    """The largest."""
    return Aggregation("max", value)


def mean(value: ValueSelector = None) -> Aggregation:
    """The arithmetic mean, as a float."""
    return Aggregation("mean", value)

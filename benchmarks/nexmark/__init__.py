"""Nexmark: an auction house as a stream, and questions about it (workload W5).

`generator` makes the events, `queries` asks, `answers` knows what is right.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import cutwater as cw
from benchmarks.nexmark import queries
from benchmarks.nexmark.generator import Scale, write

Query = Callable[[cw.Environment, Path], cw.DataStream]

QUERIES: dict[str, Query] = {
    "q1": queries.q1_currency_conversion,
    "q2": queries.q2_selection,
    "q3": queries.q3_local_items,
    "q4": queries.q4_average_price,
    "q5": queries.q5_hot_items,
    "q7": queries.q7_highest_bid,
    "q8": queries.q8_new_users,
}


def make_data(folder: Path, events: int) -> None:
    """The input of all queries: 10,000 events a second of event time, 2 s of disorder."""
    write(Path(folder), Scale(events))

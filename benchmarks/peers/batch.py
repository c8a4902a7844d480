"""How is a batch query measured that ends in a moment? It is asked again until the time is up; the median counts."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from benchmarks.contract import Answer, Result, Settings, counts_answer, windows_answer

Query = Callable[[], tuple[int, list[tuple[int, ...]]]]
"""Gives how many rows it has counted, and for verification (count,) or (window, sum, count) of each group."""


def repeat(given: Settings, query: Query, *, version: str) -> Result:
    durations: list[float] = []
    groups: list[tuple[int, ...]] = []
    began = time.perf_counter()
    while not durations or (not given.verify and time.perf_counter() - began < given.target_seconds):
        asked = time.perf_counter()
        counted, groups = query()
        durations.append(time.perf_counter() - asked)
        assert counted == given.rows, f"{counted} rows were counted, {given.rows} are there"
    ended_at = time.time() - sum(durations[1:])
    warm = durations[1:] or durations  # the first query also finds the files and warms the page cache
    return Result(
        statistics.median(warm),
        given.rows,
        ended_at=ended_at,
        version=version,
        answer=_answer(given, groups) if given.verify else None,
        facts={"queries": len(durations), "first_query_seconds": durations[0]},
    )


def _answer(given: Settings, groups: list[tuple[int, ...]]) -> Answer:
    if given.workload == "W3":
        return windows_answer((start, total, count) for start, total, count in groups)
    return counts_answer(count for (count,) in groups)

"""Does every record that waits for an answer come out once, when slots are killed and at another parallelism?"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import cutwater as cw

from .local import LocalRuns

COUNT = 400


class Doubled:
    """Takes longer for some numbers, fails for some, and needs several attempts for others."""

    async def open(self, context: Any) -> None:
        self._calls = 0

    async def process(self, n: int) -> tuple[int, int]:
        self._calls += 1
        if self._calls % 7 == 0:
            raise ConnectionError("try again")
        await asyncio.sleep(n % 10 / 1000)
        return n, 2 * n // (n % 11) * 0 + 2 * n


def build(env: cw.Environment, *, ordered: bool) -> cw.DataStream:
    """The sums of windows tell whether a record has come behind its watermark."""
    numbers = env.from_source(cw.sources.generator(lambda n: n, count=COUNT, splits=2), uid="numbers")
    timed = numbers.assign_timestamps(lambda n: n, cw.watermarks.bounded("10ms"))
    retry = cw.retry.fixed(attempts=3, delay="2ms", on=(ConnectionError,))
    doubled = timed.async_map(
        Doubled(), capacity=8, ordered=ordered, retry=retry, on_error="dead_letter", uid="doubled"
    )
    windows = doubled.key_by(lambda pair: pair[0] % 3).window(cw.tumbling("20ms")).process(summed, uid="windows")
    return windows.union(doubled.side_output("errors").map(lambda letter: ("failed", letter.record)))


def summed(key: int, pairs: list[tuple[int, int]], context: Any) -> Any:
    yield key, context.window.start_ms, sum(double for _, double in pairs)


def expected() -> list[Any]:
    sums: dict[tuple[int, int], int] = {}
    for n in range(COUNT):
        if n % 11:
            place = n % 3, n // 20 * 20
            sums[place] = sums.get(place, 0) + 2 * n
    windows = [(key, start, total) for (key, start), total in sums.items()]
    return sorted([*windows, *(("failed", n) for n in range(COUNT) if n % 11 == 0)], key=repr)


@pytest.mark.parametrize("ordered", [True, False], ids=["ordered", "unordered"])
@pytest.mark.parametrize("seed", range(3))
def test_records_that_wait_for_an_answer_come_out_exactly_once(seed: int, ordered: bool) -> None:
    runs = LocalRuns(lambda env: build(env, ordered=ordered), seed=seed)
    assert sorted(runs.plain(parallelism=2), key=repr) == expected()
    assert sorted(runs.killed(parallelism=2), key=repr) == expected()
    assert sorted(runs.rescaled(2, 3), key=repr) == expected()
    assert sorted(runs.rescaled_while_running(2, 3, 1), key=repr) == expected()

"""How many records a second does one task enrich, when every call takes 20 ms?

    python -m benchmarks.async_calls

The most that is possible is capacity / 20 ms. Measured in the task, between its first result and its last one.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import cutwater as cw

CALL_SECONDS = 0.02
CAPACITY = 100
RECORDS = 30_000


async def ask(n: int) -> int:
    await asyncio.sleep(CALL_SECONDS)
    return n


class Watch:
    """Passes on when the first result came, and the last one."""

    def __init__(self) -> None:
        self._results = 0
        self._begun_seconds = 0.0

    def process(self, n: int, context: Any) -> Any:
        now = time.monotonic()
        if self._results == 0:
            self._begun_seconds = now
        self._results += 1
        if self._results == RECORDS:
            yield self._results, now - self._begun_seconds


def measure(folder: Path, *, ordered: bool) -> float:
    """Records a second."""
    env = cw.Environment(parallelism=1, checkpoints=cw.Checkpoints(every="500ms", storage=f"file://{folder}/snapshots"))
    numbers = env.from_source(cw.sources.generator(int, count=RECORDS), uid="numbers")
    answers = numbers.async_map(ask, capacity=CAPACITY, ordered=ordered, uid="answers")
    ((results, seconds),) = answers.process(Watch(), uid="watch").execute_and_collect()
    return float(results / seconds)


def main() -> None:
    possible = CAPACITY / CALL_SECONDS
    for ordered in (True, False):
        with TemporaryDirectory() as folder:
            per_second = measure(Path(folder), ordered=ordered)
        order = "ordered" if ordered else "unordered"
        print(f"{order}: {per_second:,.0f} records/s of {possible:,.0f} ({per_second / possible:.0%})")


if __name__ == "__main__":
    main()

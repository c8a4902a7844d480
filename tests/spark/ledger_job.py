"""A job whose output tells every loss, repetition and disorder.

Records carry a key and a number that grows by one per key, in order. A keyed function with state checks the order,
counts, and writes (key, number): each exactly once, in order, is the only right output.
"""

from __future__ import annotations

import json
import os
import re
import resource
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import cutwater as cw
from cutwater.api.jobs import JobHandle
from cutwater.status import JobStatus

KEYS = 48
SPLITS = 4


def record_of(index: int, quiet_keys: int = 0) -> tuple[int, int]:
    """Split s generates the indexes s, s + 4, …, so a key (a multiple-of-4 class) always comes from one split.

    The quiet keys, above the others, come first and once.
    """
    if index < quiet_keys:
        return KEYS + index, 0
    return index % KEYS, (index - quiet_keys) // KEYS


class Count:
    """Numbers the records of a key. The padding makes the state too large to travel inside an acknowledgement."""

    def __init__(self, padding_bytes: int) -> None:
        self._padding = "x" * padding_bytes

    def open(self, context: Any) -> None:
        self._count = context.value_state("count", default=0)
        self._ballast = context.value_state("ballast")

    def process(self, record: tuple[int, int], context: Any) -> Iterator[dict[str, int]]:
        seen = self._count.value()
        self._count.update(seen + 1)
        self._ballast.update(self._padding + str(seen))
        yield {"key": record[0], "number": record[1], "count": seen + 1}


@dataclass(frozen=True)
class LedgerJob:
    """Where things are, and how much input there is."""

    root: Path
    records: int = 12_000
    per_second: float = 3_000
    #: A multiple of KEYS: state that doesn't change after the beginning.
    quiet_keys: int = 0

    def submit(
        self,
        spark: Any,
        *,
        mischief: Callable[[Any], Any] | None = None,
        padding_bytes: int = 8_000,
        parallelism: int = 2,
        state_backend: str = "filesystem",
        restore: str | None = None,
        checkpoints: dict[str, Any] | None = None,
        **options: Any,
    ) -> JobHandle:
        settings = {"every": "200ms", "storage": f"file://{self.root}/checkpoints", "tolerable_failures": 100}
        env = cw.Environment(
            spark=spark,
            parallelism=parallelism,
            state_backend=state_backend,
            checkpoints=cw.Checkpoints(**{**settings, **(checkpoints or {})}),
            restart=cw.restart.fixed_delay(attempts=50, delay="0s"),
            **options,
        )
        make_record = partial(record_of, quiet_keys=self.quiet_keys)
        source = cw.sources.generator(make_record, count=self.records, per_second=self.per_second, splits=SPLITS)
        stream = env.from_source(source, uid="numbers")
        if mischief is not None:
            stream = stream.map(mischief, uid="mischief")
        (
            stream.key_by(lambda record: record[0])
            .process(Count(padding_bytes), uid="count")
            .sink_to(cw.sinks.json_lines(str(self.root / "out")), uid="out")
        )
        return env.submit("ledger", restore=restore, require="exactly_once")

    def assert_output_is_exact(self) -> None:
        rows = self.rows_per_key()
        assert sorted(rows) == list(range(KEYS + self.quiet_keys))
        for key, found in rows.items():
            numbers = [row["number"] for row in found]
            often = (self.records - self.quiet_keys - key + KEYS - 1) // KEYS
            expected = list(range(often if key < KEYS else 1))
            assert sorted(numbers) == expected, f"key {key}: lost or repeated records"
            assert numbers == expected, f"key {key}: out of order"
            assert [row["count"] for row in found] == [number + 1 for number in expected], f"key {key}: wrong state"

    def rows_per_key(self) -> dict[int, list[dict[str, int]]]:
        rows: dict[int, list[dict[str, int]]] = defaultdict(list)
        for path in sorted((self.root / "out").glob("*.jsonl"), key=_written_order):
            for line in path.read_text().splitlines():
                row = json.loads(line)
                rows[row["key"]].append(row)
        return rows


def _written_order(path: Path) -> tuple[int, ...]:
    match = re.search(r"-a(\d+)-(\d+)\.", path.name)
    assert match is not None, path
    return int(match[1]), int(match[2])


def wait_for(job: JobHandle, holds: Callable[[JobStatus], bool], seconds: float = 120.0) -> JobStatus:
    """Watches the job until something holds; fails with the job's own failure if it ends before."""
    deadline = time.monotonic() + seconds
    while True:
        status = job.status()
        if holds(status):
            return status
        if status.state.terminal:
            job.wait("30s")
            raise AssertionError(f"the job is {status.state} before the expected happened")
        assert time.monotonic() < deadline, f"did not happen in {seconds} s: {status}"
        time.sleep(0.005)


def once(marker: Path, act: Callable[[], None], *, after: int) -> Callable[[Any], Any]:
    """A map function that acts at one record, the first time any process sees it."""

    def mischief(record: Any) -> Any:
        if record[1] == after and record[0] == 0 and not marker.exists():
            marker.touch()
            act()
        return record

    return mischief


def fail() -> None:
    raise ValueError("the author of this function did not think of this record")


def stall() -> None:
    time.sleep(1.5)


def limit_file_size() -> None:
    """From now on a write beyond this size fails half-way, as on a full disk; for two seconds."""
    import threading

    def lift() -> None:
        time.sleep(2.0)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, resource.RLIM_INFINITY))
    threading.Thread(target=lift, daemon=True).start()


def kill(pid: int) -> None:
    os.kill(pid, 9)

"""Do functions that work in place give the same results when slots are killed, and at another parallelism?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import cutwater as cw
from cutwater.testing.harness import LocalLauncher

from .local import LocalRuns

RECORDS = [{"key": f"k{n % 7}", "n": 1, "seen": []} for n in range(400)]


def add_in_place(total: dict[str, Any], record: dict[str, Any]) -> dict[str, Any]:
    total["n"] += record["n"]
    total["seen"].append(total["n"])
    return total


def shortened(record: dict[str, Any]) -> tuple[str, int, int]:
    """Changes what it gets, as nothing else may notice."""
    record["n"] *= 1000
    record["seen"].clear()
    return record["key"], record["n"], len(record["seen"])


class Latest:
    """Keeps a dict, changes it in place, and emits it."""

    def open(self, context: Any) -> None:
        self.total = context.value_state("total")

    def process(self, record: dict[str, Any], context: Any) -> Iterator[dict[str, Any]]:
        total = self.total.value() or {"key": record["key"], "n": 0, "seen": []}
        total["n"] += 1
        total["seen"].append(record["n"])
        self.total.update(total)
        yield total


def build(env: cw.Environment) -> cw.DataStream:
    source = env.from_source(cw.sources.generator(lambda n: dict(RECORDS[n], seen=[]), count=400), uid="records")
    reduced = source.key_by("key").reduce(add_in_place, uid="reduce").map(shortened, uid="shortened")
    kept = source.key_by("key").process(Latest(), uid="latest").map(shortened, uid="kept")
    return reduced.union(kept)


@pytest.mark.parametrize("backend", ["filesystem", "rocksdb"])
@pytest.mark.parametrize("seed", range(3))
def test_in_place_functions_survive_kills_and_rescaling(seed: int, backend: str) -> None:
    runs = LocalRuns(build, seed=seed, state_backend=backend)
    counts = [400 // 7 + (key < 400 % 7) for key in range(7)]
    expected = sorted((f"k{key}", n * 1000, 0) for key in range(7) for n in range(1, counts[key] + 1) for _ in "12")
    assert sorted(runs.plain(parallelism=2)) == expected
    assert sorted(runs.killed(parallelism=2)) == expected
    assert sorted(runs.rescaled(2, 3)) == expected


def test_the_values_of_a_collection_stay_the_users() -> None:
    values = [{"key": "a", "n": 1, "seen": [1]}]
    env = cw.Environment(launcher=LocalLauncher())
    assert env.from_collection(values).map(shortened).execute_and_collect() == [("a", 1000, 0)]
    assert values == [{"key": "a", "n": 1, "seen": [1]}]

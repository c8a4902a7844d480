"""In which settings is Cutwater measured, and how fast is it, roughly?

The speeds only choose the number of rows of a first run.
"""

from __future__ import annotations

from benchmarks.subjects import Case, Subject
from benchmarks.workloads import STORIES

CUTWATER = Subject("Cutwater", "benchmarks.cutwater_jobs")
LATENCY = Subject("Cutwater", "benchmarks.latency")
PER_RECORD = "per record"
PER_BATCH = "per batch"
BACKEND = "filesystem"
OTHER_BACKENDS = ("memory",)
CHECKPOINT_SECONDS: tuple[float | None, ...] = (None, 1.0, 0.1)
KEYS_OF_GROWTH = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
PARALLELISMS = (1, 2, 4)

#: For each workload what is given (a result for each record, or for each key and batch), and a guess of rows a second.
SPEEDS: dict[str, dict[str, float]] = {
    "W1": {PER_RECORD: 8_000_000, PER_BATCH: 30_000_000},
    "W2": {PER_RECORD: 4_000_000, PER_BATCH: 5_000_000},
    "W3": {"": 15_000_000},
    "W4": {PER_RECORD: 1_000_000},
    **{name: {"": 200_000.0} for name in STORIES},
}


def own_cases(workloads: list[str]) -> list[Case]:
    """With a checkpoint every second."""
    return [
        Case(CUTWATER, workload, speed, backend=BACKEND, variant=variant)
        for workload in workloads
        for variant, speed in SPEEDS.get(workload, {}).items()
    ]


def cold_cases() -> list[Case]:
    """From a cold start, so nothing is warmed up."""
    return [Case(CUTWATER, "cold", 0, backend=BACKEND, variant=variant) for variant in (PER_RECORD, PER_BATCH)]


def growth_cases() -> list[Case]:
    speed = SPEEDS["W1"][PER_RECORD]
    keys = [
        Case(CUTWATER, "growth-keys", speed, backend=BACKEND, variant=variant, keys=count)
        for count in KEYS_OF_GROWTH
        for variant in (PER_RECORD, PER_BATCH)
    ]
    parallelism = [
        Case(CUTWATER, "growth-parallelism", speed, backend=BACKEND, variant=PER_RECORD, parallelism=slots)
        for slots in PARALLELISMS
    ]
    return keys + parallelism

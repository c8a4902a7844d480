"""What is asked of every system?

Add a workload here, its job for Cutwater in `cutwater_jobs.JOBS`, and for a peer in that peer's file.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Workload:
    title: str
    #: Distinct keys of the data set; None: the job makes its own input.
    keys: int | None
    #: Event time matters: a longer input is one that goes on, not the same files again.
    advancing: bool = False


WORKLOADS: dict[str, Workload] = {
    "W1": Workload("count per key, 1,000 keys", keys=1_000),
    "W2": Workload("count per key, 1 M keys", keys=1_000_000),
    "W3": Workload("10 s tumbling sum and count, 5 s out-of-orderness, 1,000 keys", keys=1_000, advancing=True),
    "W4": Workload("a Python function with keyed state, each record, 1,000 keys", keys=1_000),
}

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
    #: Each key occurs equally often, and none is missing: for costs that grow with the number of keys.
    even: bool = False


#: Those that `--workloads` chooses from unless told otherwise.
TABLE = ("W1", "W2", "W3", "W4")

WORKLOADS: dict[str, Workload] = {
    "W1": Workload("count per key, 1,000 keys", keys=1_000),
    "W2": Workload("count per key, 1 M keys", keys=1_000_000),
    "W3": Workload("10 s tumbling sum and count, 5 s out-of-orderness, 1,000 keys", keys=1_000, advancing=True),
    "W4": Workload("a Python function with keyed state, each record, 1,000 keys", keys=1_000),
    # Not of the table: the same count seen from other sides.
    "cold": Workload("W1 from the start of the process to the result", keys=1_000),
    "growth-keys": Workload("count per key, more and more keys", keys=1_000, even=True),
    "growth-parallelism": Workload("count per key, more and more slots", keys=1_000),
    "latency": Workload("from the moment a record is due to its result at the sink", keys=None),
}

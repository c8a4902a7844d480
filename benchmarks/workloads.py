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


#: Those that every system is asked.
TABLE = ("W1", "W2", "W3", "W4")
#: Those that bring their own input (`stories`): Cutwater alone.
STORIES = ("W5-q1", "W5-q2", "W5-q3", "W5-q4", "W5-q5", "W5-q7", "W5-q8", "W6")

WORKLOADS: dict[str, Workload] = {
    "W1": Workload("count per key, 1,000 keys", keys=1_000),
    "W2": Workload("count per key, 1 M keys", keys=1_000_000),
    "W3": Workload("10 s tumbling sum and count, 5 s out-of-orderness, 1,000 keys", keys=1_000, advancing=True),
    "W4": Workload("a Python function with keyed state, each record, 1,000 keys", keys=1_000),
    **{name: Workload(f"Nexmark {name.removeprefix('W5-')}", keys=None) for name in STORIES if name != "W6"},
    "W6": Workload("words in sliding windows of 5 s, every second", keys=None),
    # Not of the table: the same count seen from other sides.
    "cold": Workload("W1 from the start of the process to the result", keys=1_000),
    "growth-keys": Workload("count per key, more and more keys", keys=1_000, even=True),
    "growth-parallelism": Workload("count per key, more and more slots", keys=1_000),
    "latency": Workload("from the moment a record is due to its result at the sink", keys=None),
}

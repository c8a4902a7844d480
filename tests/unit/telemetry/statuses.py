"""A job that has everything that can be told of one."""

from __future__ import annotations

from cutwater.protocol.lifecycle import JobState
from cutwater.status import (
    CheckpointStatus,
    JobStatus,
    LatencyStatus,
    MetricStatus,
    OperatorActivity,
    OperatorStateStatus,
    RecoveryStatus,
    TaskStatus,
)

NOW_MS = 1_700_000_000_000


def full_status() -> JobStatus:
    metrics = (
        MetricStatus("orders seen", "counter", 7),
        MetricStatus("orders-seen", "gauge", 2),
        MetricStatus("paid_total", "counter", 3),
        MetricStatus("size", "histogram", 12.5, count=4, bounds=(1.0, 10.0), counts=(1, 2, 1)),
    )
    operators = (OperatorActivity("count", 10, 7, 0.5, metrics=metrics),)
    task = TaskStatus(
        "count[0]", "slot-1", 10, 7, 1.0, 2.0, 3.0, 0.25, 5, NOW_MS - 2_000, late_records=1, bad_timestamps=2,
        skipped_records=3, dead_letters=4, lag={"orders/0": 30}, operators=operators,
    )  # fmt: skip
    checkpoint = CheckpointStatus(
        4, "checkpoint", 2, "completed", 0.02, triggered_at_ms=NOW_MS - 1_000, size_bytes=1_000, new_bytes=100,
        start_delay_seconds_max=0.001, sync_seconds_max=0.002, async_seconds_max=0.003, alignment_seconds_max=0.004,
        source_pause_seconds_max=0.005,
    )  # fmt: skip
    return JobStatus(
        "orders",
        "Orders",
        JobState.RUNNING,
        attempt=2,
        tasks=(task,),
        checkpoints=(checkpoint,),
        checkpoints_completed=4,
        checkpoints_failed=1,
        latency=LatencyStatus(0.01, 0.02, 0.03, 4),
        operator_states=(OperatorStateStatus("count", 900, largest_group=3, largest_group_bytes=500),),
        recoveries=(RecoveryStatus(1, "slot slot-1 was lost", 1.0, NOW_MS - 5_000, deployed_seconds=0.7),),
        restarts=1,
        as_of_ms=NOW_MS,
        running_seconds=60.0,
        warnings_total=2,
    )

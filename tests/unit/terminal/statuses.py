"""Jobs at one moment."""

from __future__ import annotations

from cutwater.protocol.lifecycle import JobState
from cutwater.status import (
    ChainStatus,
    CheckpointStatus,
    EdgeStatus,
    GraphStatus,
    JobStatus,
    OperatorActivity,
    OperatorStatus,
    TaskStatus,
)

SOURCE = OperatorStatus("in", "kafka(orders)", "source")
MAP = OperatorStatus("parse", "map[parse]", "operator")
COUNT = OperatorStatus("count", "count", "operator")
SINK = OperatorStatus("out", "parquet(out/)", "sink")


def task(name: str, *operators: OperatorActivity, busy: float, lag: int | None = None) -> TaskStatus:
    return TaskStatus(
        task=name,
        slot="slot-1.0",
        records_in=1_000,
        records_out=2_000,
        busy_seconds=1.0,
        idle_seconds=1.0,
        backpressured_seconds=0.0,
        alignment_seconds=0.0,
        queued_elements=3,
        lag={} if lag is None else {"orders/0": lag},
        records_in_per_second=1_234.0,
        records_out_per_second=45_600.0,
        busy_share=busy,
        backpressured_share=0.25,
        operators=operators,
    )


def orders() -> JobStatus:
    """Two chains of two operators, with two tasks each; 900 records read a second, 70 written."""
    reading = tuple(
        task(
            f"in[{number}]",
            OperatorActivity("in", 0, 5_000, 0.1, records_out_per_second=450.0, busy_share=0.1),
            OperatorActivity("parse", 5_000, 4_000, 0.1, 450.0, 400.0, busy_share=0.5 + number / 4),
            busy=0.95,
            lag=700,
        )
        for number in range(2)
    )
    counting = tuple(
        task(
            f"count[{number}]",
            OperatorActivity("count", 4_000, 350, 0.1, 400.0, 35.0),
            OperatorActivity("out", 350, 0, 0.1, 35.0),
            busy=0.1,
        )
        for number in range(2)
    )
    return JobStatus(
        "orders-1",
        "orders",
        JobState.RUNNING,
        attempt=2,
        graph=GraphStatus(
            (
                ChainStatus("in", "kafka(orders) → map[parse]", 2, (SOURCE, MAP)),
                ChainStatus("count", "count → parquet(out/)", 2, (COUNT, SINK)),
            ),
            (EdgeStatus("in", "count", "hash"),),
        ),
        tasks=counting + reading,
        checkpoints=(
            CheckpointStatus(7, "checkpoint", 2, "completed", 0.034, size_bytes=12_100, new_bytes=2_000),
            CheckpointStatus(8, "checkpoint", 2, "declined: in[0] had ended", 0.1),
        ),
        checkpoints_under_way=(
            CheckpointStatus(9, "savepoint", 2, "under way", 0.01, tasks_acknowledged=3, tasks_total=4),
        ),
        checkpoints_completed=98,
        checkpoints_failed=1,
        restarts=1,
        running_seconds=312.0,
        warnings=("a warning of [bold]markup[/bold]\x1b[2J",),
        warnings_total=1,
    )

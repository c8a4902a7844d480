"""What does a task tell about itself?"""

from __future__ import annotations

from copy import copy

import msgspec

from cutwater.operators.user_metrics import UserMetric


class OperatorMetrics(msgspec.Struct, array_like=True):
    """Of one operator of a task, since the attempt started."""

    uid: str
    records_in: int = 0
    records_out: int = 0
    #: In this operator alone, without those that it called.
    busy_seconds: float = 0.0
    #: What the user's function counts: `context.metrics`.
    users: list[UserMetric] = []


class TaskMetrics(msgspec.Struct, array_like=True):
    """Counted since the attempt started.

    Busy, idle and backpressured add up to the time since then. A task is idle when it has nothing to do, and while it
    waits for its turn; it is backpressured from the moment it finds no room until it finds some.
    """

    task: str
    records_in: int = 0
    records_out: int = 0
    batches_in: int = 0
    busy_seconds: float = 0.0
    idle_seconds: float = 0.0
    backpressured_seconds: float = 0.0
    alignment_seconds: float = 0.0
    queued_elements: int = 0
    #: How far event time has come here; None: nowhere yet.
    watermark_ms: int | None = None
    #: Records that came after their window had been cleaned up, and were not sent to a side output.
    late_records: int = 0
    #: Records dropped because their timestamp was missing or absurd.
    bad_timestamps: int = 0
    #: How far event time has come in the splits of a source that assigns timestamps, whatever follows it in its chain.
    source_watermark_ms: int | None = None
    #: Other sources should wait for this one if they are ahead: it has splits that are not silent.
    source_may_lag: bool = True
    #: By split of a source that knows: records that are there and were not read yet. Replaced, never changed.
    lag: dict[str, int] = {}
    #: Records that failed and were dropped, as `on_error="skip"` says.
    skipped_records: int = 0
    #: Records that failed and left by the side output "errors", as `on_error="dead_letter"` says.
    dead_letters: int = 0
    #: In the order of the chain.
    operators: list[OperatorMetrics] = []

    def told(self) -> TaskMetrics:
        """As it is now, whatever is counted later."""
        return msgspec.structs.replace(self, operators=list(map(copy, self.operators)))


class SlotMetrics(msgspec.Struct, array_like=True):
    attempt: int
    tasks: list[TaskMetrics]

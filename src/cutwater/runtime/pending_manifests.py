"""What has a checkpoint collected so far, and what manifest does it become?"""

from __future__ import annotations

from dataclasses import dataclass, field

from cutwater.graph.plan import JobPlan
from cutwater.protocol.checkpoint_events import CheckpointKind
from cutwater.protocol.ids import AttemptNumber, CheckpointId, TaskId
from cutwater.snapshots.format import FORMAT_VERSION, Manifest, TaskSnapshot, VertexShape
from cutwater.status import CheckpointDetails, CheckpointStatus, TaskCheckpointStatus


@dataclass(slots=True)
class PendingManifest:
    """A checkpoint under way: what its tasks and sources gave to it."""

    checkpoint: CheckpointId
    kind: CheckpointKind
    attempt: AttemptNumber
    triggered_at_seconds: float
    triggered_at_ms: int
    sources: dict[str, bytes]
    savepoint: str = ""
    tasks_total: int = 0
    tasks: dict[TaskId, TaskSnapshot] = field(default_factory=dict)
    #: When each task's part was here.
    acknowledged_at_seconds: dict[TaskId, float] = field(default_factory=dict)

    def acknowledge(self, task: TaskId, snapshot: TaskSnapshot, now_seconds: float) -> None:
        self.acknowledged_at_seconds[task] = now_seconds  # first: `details` may be read meanwhile, of those in `tasks`
        self.tasks[task] = snapshot

    def manifest(self, plan: JobPlan, created_at: str, now_seconds: float, *, committed_in_driver: int = 0) -> Manifest:
        return Manifest(
            version=FORMAT_VERSION,
            job_id=plan.job_id,
            job_name=plan.name,
            checkpoint=self.checkpoint,
            attempt=self.attempt,
            kind=self.kind,
            created_at=created_at,
            vertices=tuple(
                VertexShape(
                    vertex.uid,
                    tuple(node.uid for node in vertex.operators),
                    vertex.parallelism,
                    vertex.max_parallelism,
                )
                for vertex in plan.graph.vertices
            ),
            tasks=tuple(self.tasks[task] for task in sorted(self.tasks)),
            sources=dict(sorted(self.sources.items())),
            duration_seconds=now_seconds - self.triggered_at_seconds,
            committed_in_driver=committed_in_driver,
        )

    def under_way(self, now_seconds: float) -> CheckpointStatus:
        """How far it is; asked often, so nothing is added up."""
        return CheckpointStatus(
            self.checkpoint,
            self.kind,
            self.attempt,
            "under way",
            duration_seconds=now_seconds - self.triggered_at_seconds,
            triggered_at_ms=self.triggered_at_ms,
            tasks_acknowledged=len(self.tasks),
            tasks_total=self.tasks_total,
        )

    def details(self, outcome: str, now_seconds: float) -> CheckpointDetails:
        tasks = [
            TaskCheckpointStatus(
                str(task),
                start_delay_seconds=snapshot.start_delay_seconds,
                alignment_seconds=snapshot.alignment_seconds,
                sync_seconds=snapshot.sync_seconds,
                async_seconds=snapshot.async_seconds,
                acknowledged_seconds=self.acknowledged_at_seconds[task] - self.triggered_at_seconds,
                size_bytes=snapshot.size_bytes,
                new_bytes=snapshot.new_bytes,
            )
            for task, snapshot in sorted(self.tasks.items())
        ]
        return CheckpointDetails(self._status(outcome, now_seconds), tuple(tasks))

    def _status(self, outcome: str, now_seconds: float) -> CheckpointStatus:
        snapshots = self.tasks.values()
        return CheckpointStatus(
            checkpoint=self.checkpoint,
            kind=self.kind,
            attempt=self.attempt,
            outcome=outcome,
            duration_seconds=now_seconds - self.triggered_at_seconds,
            triggered_at_ms=self.triggered_at_ms,
            tasks_acknowledged=len(self.tasks),
            tasks_total=self.tasks_total,
            size_bytes=sum(snapshot.size_bytes for snapshot in snapshots),
            new_bytes=sum(snapshot.new_bytes for snapshot in snapshots),
            start_delay_seconds_max=max((snapshot.start_delay_seconds for snapshot in snapshots), default=0.0),
            sync_seconds_max=max((snapshot.sync_seconds for snapshot in snapshots), default=0.0),
            async_seconds_max=max((snapshot.async_seconds for snapshot in snapshots), default=0.0),
            alignment_seconds_max=max((snapshot.alignment_seconds for snapshot in snapshots), default=0.0),
            source_pause_seconds_max=max((snapshot.source_pause_seconds for snapshot in snapshots), default=0.0),
        )

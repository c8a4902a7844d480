"""What has a checkpoint collected so far, and what manifest does it become?"""

from __future__ import annotations

from dataclasses import dataclass, field

from cutwater.graph.plan import JobPlan
from cutwater.protocol.checkpoint_events import CheckpointKind
from cutwater.protocol.ids import AttemptNumber, CheckpointId, TaskId
from cutwater.snapshots.format import FORMAT_VERSION, Manifest, TaskSnapshot, VertexShape
from cutwater.status import CheckpointStatus


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
    tasks: dict[TaskId, TaskSnapshot] = field(default_factory=dict)

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

    def status(self, outcome: str, now_seconds: float) -> CheckpointStatus:
        snapshots = self.tasks.values()
        return CheckpointStatus(
            checkpoint=self.checkpoint,
            kind=self.kind,
            attempt=self.attempt,
            outcome=outcome,
            duration_seconds=now_seconds - self.triggered_at_seconds,
            triggered_at_ms=self.triggered_at_ms,
            size_bytes=sum(snapshot.size_bytes for snapshot in snapshots),
            new_bytes=sum(snapshot.new_bytes for snapshot in snapshots),
            start_delay_seconds_max=max((snapshot.start_delay_seconds for snapshot in snapshots), default=0.0),
            sync_seconds_max=max((snapshot.sync_seconds for snapshot in snapshots), default=0.0),
            async_seconds_max=max((snapshot.async_seconds for snapshot in snapshots), default=0.0),
            alignment_seconds_max=max((snapshot.alignment_seconds for snapshot in snapshots), default=0.0),
            source_pause_seconds_max=max((snapshot.source_pause_seconds for snapshot in snapshots), default=0.0),
        )

"""What do sources and sinks do in the driver when a checkpoint has completed?

Sinks that commit in the driver get what all tasks have prepared; sources that want to know hear which splits will be
read again. In the background, one checkpoint after the other, and the next one is not published before: its snapshot
may no longer hold what this one has prepared, because the slots take it for committed. So whatever is not committed yet
is always in the newest snapshot, and a recovery commits it. What a task still had as prepared, because it had not heard
of the commit, must not be committed again: it is only a part of its epoch. So the manifest says what is done.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from cutwater.errors import CutwaterError, OperationsError
from cutwater.graph.model import LogicalNode, NodeKind
from cutwater.graph.plan import JobPlan
from cutwater.operators.sink import COMMITTABLES_STATE, decode_committable
from cutwater.operators.source import READERS_STATE, decode_position
from cutwater.protocol.ids import AttemptNumber, CheckpointId
from cutwater.runtime.pending_manifests import PendingManifest
from cutwater.runtime.seams import Background
from cutwater.runtime.sources import decode_assigner
from cutwater.snapshots.reader import list_items_of
from cutwater.snapshots.store import SnapshotStore


class DriverSide:
    """Of one job, through all its attempts. On the coordinator's thread."""

    def __init__(
        self,
        store: SnapshotStore,
        background: Background,
        *,
        failed: Callable[[AttemptNumber, CutwaterError], None],
        idle: Callable[[], None],
    ) -> None:
        """`idle` is called whenever the last work is done."""
        self._store = store
        self._background = background
        self._failed = failed
        self._idle = idle
        self._queue: deque[tuple[JobPlan, PendingManifest]] = deque()
        self._running = False
        #: The last checkpoint that all are done with; 0: none.
        self.committed_up_to = CheckpointId(0)
        self._waiting: dict[str, Callable[[], None]] = {}

    @property
    def busy(self) -> bool:
        return self._running or bool(self._queue)

    def completed(self, plan: JobPlan, snapshot: PendingManifest) -> None:
        if any(map(_is_concerned, plan.logical.nodes.values())):
            self._queue.append((plan, snapshot))
            self._work_on()

    def when_idle(self, name: str, work: Callable[[], None]) -> None:
        """Does this now, or as soon as there is nothing to wait for; of two works of one name only the later."""
        if self.busy:
            self._waiting[name] = work
        else:
            work()

    def stop(self) -> None:
        """The attempt has ended: what is left to do is done by a recovery. What runs can't be stopped."""
        self._queue.clear()
        self._waiting.clear()

    def _work_on(self) -> None:
        if self._running or not self._queue:
            return
        plan, snapshot = self._queue.popleft()
        self._running = True
        tell = partial(_tell, plan, snapshot, self._store, committed_up_to=self.committed_up_to)
        self._background.submit(tell, partial(self._on_told, snapshot))

    def _on_told(self, snapshot: PendingManifest, _: Any, error: BaseException | None) -> None:
        self._running = False
        if error is None:
            self.committed_up_to = snapshot.checkpoint
        else:
            self._queue.clear()
            self._failed(snapshot.attempt, _as_ours(error))
        self._work_on()
        while self._waiting and not self.busy:
            self._waiting.pop(next(iter(self._waiting)))()
        if not self.busy:
            self._idle()


def _is_concerned(node: LogicalNode) -> bool:
    if node.kind is NodeKind.SINK:
        return bool(node.connector.commits_in_driver)
    return node.kind is NodeKind.SOURCE and bool(node.connector.hears_of_checkpoints)


def _tell(plan: JobPlan, snapshot: PendingManifest, store: SnapshotStore, *, committed_up_to: CheckpointId) -> None:
    """Blocks. Sinks first: that is what others wait for."""
    tasks = tuple(snapshot.tasks.values())
    folder = store.folder(snapshot.checkpoint)
    concerned = filter(_is_concerned, plan.logical.nodes.values())
    for node in sorted(concerned, key=lambda node: node.kind is not NodeKind.SINK):
        if node.kind is NodeKind.SINK:
            items = list_items_of(store.storage, folder, tasks, node.uid, COMMITTABLES_STATE)
            prepared = map(decode_committable, items)
            node.connector.commit([found for checkpoint, found in prepared if checkpoint > committed_up_to])
        else:
            found = decode_assigner(snapshot.sources[node.uid])
            items = list_items_of(store.storage, folder, tasks, node.uid, READERS_STATE)
            unread = {split.id for split in found.unassigned} | {decode_position(item).id for item in items}
            node.connector.checkpoint_completed(unread, found.look)


def _as_ours(error: BaseException) -> CutwaterError:
    if isinstance(error, CutwaterError):
        return error
    return OperationsError(
        "a source or sink failed in the driver after a checkpoint", detail=f"{type(error).__name__}: {error}"
    )

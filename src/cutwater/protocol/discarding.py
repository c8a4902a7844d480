"""When may a snapshot be deleted that is no longer needed?

When no checkpoint is under way that may come to name files of it: state on disk shares them from one checkpoint to the
next. A checkpoint is under way from its trigger until it has completed or was given up. One whose manifest is being
written can't be called back, whatever was decided about it meanwhile: it is under way until the outcome is known, also
when its attempt is over.

    discarding = Discarding()
    discarding.triggered(7)
    discarding.publishing(7)
    discarding.wanted(5)      # []: 7 may name files of 5
    discarding.over(7)        # []: 8 has completed before it, but 7 may still appear
    discarding.published(7)   # [5]
"""

from __future__ import annotations

from cutwater.protocol.ids import CheckpointId


class Discarding:
    """One per job, through all its attempts. All but `triggered` and `publishing` say what is to be deleted now."""

    def __init__(self) -> None:
        self._under_way: set[CheckpointId] = set()
        self._publishing: set[CheckpointId] = set()
        #: Snapshots to be deleted, and the checkpoints that have to end before.
        self._waiting: dict[CheckpointId, set[CheckpointId]] = {}

    @property
    def awaits_publication(self) -> bool:
        """A manifest is being written: its outcome decides about it, and about what waits for it."""
        return bool(self._publishing)

    def triggered(self, checkpoint: CheckpointId) -> None:
        self._under_way.add(checkpoint)

    def publishing(self, checkpoint: CheckpointId) -> None:
        """Its manifest is being written."""
        self._publishing.add(checkpoint)

    def published(self, checkpoint: CheckpointId) -> list[CheckpointId]:
        """Its manifest was written, or could not be."""
        self._publishing.discard(checkpoint)
        return self.over(checkpoint)

    def over(self, checkpoint: CheckpointId) -> list[CheckpointId]:
        """It has completed or was given up."""
        if checkpoint in self._publishing:
            return []
        self._under_way.discard(checkpoint)
        return self._released()

    def all_over(self) -> list[CheckpointId]:
        """The attempt has ended."""
        self._under_way &= self._publishing
        return self._released()

    def wanted(self, checkpoint: CheckpointId) -> list[CheckpointId]:
        """This snapshot is no longer needed."""
        self._waiting[checkpoint] = self._under_way - {checkpoint}
        return self._released()

    def _released(self) -> list[CheckpointId]:
        ready = [checkpoint for checkpoint, awaited in self._waiting.items() if not awaited & self._under_way]
        for checkpoint in ready:
            del self._waiting[checkpoint]
        return ready

"""At most once: how far has each source task read?

Without checkpoints a restarted job goes on behind the last record that any task may have emitted: what was under way
is lost, nothing is counted twice. A source task tells its positions before it emits a batch and waits for the answer.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from cutwater.operators.source import decode_position, decode_progress
from cutwater.runtime.messages import SplitProgressed
from cutwater.runtime.sources import SourceCoordination, encode_assigner


class ReadProgress:
    """Lives as long as the coordinator; empty in the other modes."""

    def __init__(self) -> None:
        self._readers: dict[tuple[str, int], list[bytes]] = {}
        self._finished: set[tuple[str, str]] = set()
        self.assigners: dict[str, bytes] = {}

    def advanced(self, message: SplitProgressed) -> None:
        readers, finished = decode_progress(message.readers)
        self._readers[message.operator, message.subtask] = readers
        self._finished.update((message.operator, split) for split in finished)

    def readers(self, operator: str, subtask: int) -> list[bytes]:
        """Where the readers of a task stood, as items of its operator state."""
        return self._readers.get((operator, subtask), [])

    def keep(self, sources: Iterable[SourceCoordination]) -> None:
        """The attempt ended: splits that were assigned but never begun are handed out again."""
        for source in sources:
            state = source.assigner_state()
            begun = self._begun(source.operator)
            unread = tuple(split for split in source.assigned if split.id not in begun)
            self.assigners[source.operator] = encode_assigner(replace(state, unassigned=unread + state.unassigned))

    def reading(self, operator: str) -> set[str]:
        """Splits that its tasks had begun and not finished."""
        return {
            decode_position(item).id
            for (source, _), items in self._readers.items()
            if source == operator
            for item in items
        }

    def _begun(self, operator: str) -> set[str]:
        return self.reading(operator) | {split for source, split in self._finished if source == operator}

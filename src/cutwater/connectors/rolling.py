"""Which finished files appear as one?

A checkpoint needs finished files: what a barrier cuts off must not change any more. So that files may be larger than
what comes between two barriers, finished ones wait, as pieces, until there are enough of them or the first is old
enough; then they are joined, and appear as one. What waits is in every snapshot.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from cutwater.connectors.prepared_files import PreparedFile


@dataclass(slots=True)
class _Waiting:
    started_seconds: float
    pieces: list[PreparedFile] = field(default_factory=list)
    bytes: int = 0


class Rolling:
    """The finished files of one writer. Those of a folder are rolled in the order in which they were finished.

    >>> rolling = Rolling(roll_bytes=100, roll_seconds=60)
    >>> rolling.add(PreparedFile("p", "part-a0-1.txt", 10), started_seconds=0, is_full=False)
    >>> rolling.take_due(now_seconds=59)
    []
    >>> [len(pieces) for pieces in rolling.take_due(now_seconds=60)]
    [1]
    """

    def __init__(self, *, roll_bytes: int, roll_seconds: float | None) -> None:
        """Without `roll_seconds` nothing waits: every file appears by itself."""
        self._roll_bytes = roll_bytes
        self._roll_seconds = roll_seconds
        self._waiting: dict[str, _Waiting] = {}
        self._due: list[list[PreparedFile]] = []

    def add(self, file: PreparedFile, *, started_seconds: float, is_full: bool) -> None:
        if self._roll_seconds is None or is_full:  # large enough as it is: nothing is copied
            self._close(file.partition)
            self._due.append([file])
            return
        waiting = self._waiting.setdefault(file.partition, _Waiting(started_seconds))
        waiting.pieces.append(file)
        waiting.bytes += file.size_bytes
        if waiting.bytes >= self._roll_bytes:
            self._close(file.partition)

    def take_due(self, now_seconds: float, *, all_of_them: bool = False) -> list[list[PreparedFile]]:
        """The pieces of each file that is complete now."""
        for partition, waiting in list(self._waiting.items()):
            if all_of_them or now_seconds - waiting.started_seconds >= (self._roll_seconds or 0):
                self._close(partition)
        due, self._due = self._due, []
        return due

    def held(self) -> list[PreparedFile]:
        return [piece for waiting in self._waiting.values() for piece in waiting.pieces]

    def _close(self, partition: str) -> None:
        waiting = self._waiting.pop(partition, None)
        if waiting is not None:
            self._due.append(waiting.pieces)

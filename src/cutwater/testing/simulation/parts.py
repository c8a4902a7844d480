"""In what does output come, and where can the checkers see it?"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any, Protocol

from cutwater.graph.model import LogicalGraph
from cutwater.protocol.modes import CheckpointMode
from cutwater.runtime.recovering import History
from cutwater.testing.simulation.connectors import attempt_of, owner_of, part_of
from cutwater.testing.simulation.lineage import Part
from cutwater.testing.simulation.storage import SimulatedStorage


class Parts(Protocol):
    """The output of all lives of a job, as it is."""

    def visible(self) -> frozenset[Part]: ...

    def records(self, part: Part) -> list[Any] | None:
        """Of a part that is visible or prepared; None: there is none."""
        ...

    def prepared(self, sink: str, committable: bytes) -> Part:
        """What a committable stands for."""
        ...

    def published_as(self, part: Part) -> Part:
        """What a part that was prepared becomes visible as, in the life that runs now."""
        ...

    def in_order(self, parts: frozenset[Part]) -> list[Part]:
        """Those that were written by one task before another come before it."""
        ...

    def left_pending(self, attempt: int) -> list[str]:
        """What the life that runs now has left unpublished, from this attempt on."""
        ...

    def placed(self, graph: LogicalGraph, mode: CheckpointMode) -> LogicalGraph:
        """The job with the sinks that the life has which begins now."""
        ...

    def life_begins(self, owner: int, history: History) -> None: ...


class SimulatedParts:
    """Of the simulator's own sinks."""

    def __init__(self, storage: SimulatedStorage, sinks: Sequence[str]) -> None:
        self._files = storage.files
        self._sinks = sinks
        #: The life that writes now.
        self._owner = 1

    def visible(self) -> frozenset[Part]:
        return frozenset(
            f"{sink}/{path.rpartition('/')[2]}"
            for sink in self._sinks
            for path in self._files.list(f"out/{sink}/committed")
        )

    def records(self, part: Part) -> list[Any] | None:
        sink, _, name = part.rpartition("/")
        for folder in ("committed", "pending"):
            path = f"out/{sink}/{folder}/{name}"
            if self._files.exists(path):
                records: list[Any] = pickle.loads(self._files.read(path))
                return records
        return None

    def prepared(self, sink: str, committable: bytes) -> Part:
        return f"{sink}/{part_of(committable)}"

    def published_as(self, part: Part) -> Part:
        return part

    def in_order(self, parts: frozenset[Part]) -> list[Part]:
        return sorted(parts)

    def left_pending(self, attempt: int) -> list[str]:
        """A zombie of an older attempt may leave something; the newest attempt may not."""
        paths = [path for sink in self._sinks for path in self._files.list(f"out/{sink}/pending")]
        return [path for path in paths if owner_of(path) == self._owner and attempt_of(path) >= attempt]

    def placed(self, graph: LogicalGraph, mode: CheckpointMode) -> LogicalGraph:
        return graph

    def life_begins(self, owner: int, history: History) -> None:
        self._owner = owner

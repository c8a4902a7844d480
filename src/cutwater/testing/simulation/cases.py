"""What is a job of the simulator: its graph, and what must be true of it?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Protocol

from cutwater.config import Checkpoints, JobOptions
from cutwater.graph.model import LogicalGraph
from cutwater.protocol.modes import CheckpointMode
from cutwater.testing.simulation.pipelines.pipeline import SINK, Change, Pipeline

Read = Mapping[str, list[Any]]
"""By source uid: the records that were read, in no particular order."""
States = dict[tuple[str, str], dict[Any, Any]]
"""By operator uid and state name: the values by key."""


class KnownSource(Protocol):
    """A source all of whose records are known."""

    #: By the ids of its splits.
    splits: dict[str, list[Any]]

    def origin_of(self, split: str) -> str:
        """By which a source recognises what it has found before."""
        ...

    def read_before(self, split: str, position: int) -> list[Any]:
        """The records that a reader at this position has read."""
        ...


def _on_simulated_storage() -> JobOptions:
    return JobOptions(state_backend="filesystem", checkpoints=Checkpoints(storage="simulated"))


@dataclass(frozen=True, slots=True)
class Case:
    """A job of one seed."""

    graph: LogicalGraph
    sources: Mapping[str, KnownSource]
    sinks: tuple[str, ...]
    output: Callable[[Read], Counter[Hashable]]
    state: Callable[[Read], States]
    mode: CheckpointMode = CheckpointMode.EXACTLY_ONCE
    #: Outputs are (key, n), and every key's n must come in order.
    ordered: bool = False
    #: The operator whose broadcast state must be what its second stream brought, by what that source is.
    broadcast: tuple[str, str] | None = None
    #: Records have event times, and none is ever late.
    timed: bool = False
    #: In place of `state` and `output` in a cut, where event time decides too: what is wrong with what was found.
    cut: Callable[[Read, States, Counter[Hashable]], str | None] | None = None
    #: In place of all of these: a job of the grammar, which judges its output itself.
    pipeline: Pipeline | None = None
    options: JobOptions = field(default_factory=_on_simulated_storage)
    #: For state on local disks.
    folder: TemporaryDirectory[str] | None = None

    @property
    def line(self) -> str:
        """What a job of the grammar is made of."""
        return "" if self.pipeline is None else self.pipeline.describe()

    @property
    def outputs(self) -> tuple[str, ...]:
        """The sinks whose output is looked at, transactional or not."""
        return self.sinks if self.pipeline is None else (SINK,)

    def variant(self, change: Change, random: Random) -> LogicalGraph | None:
        """The graph of a changed program that is started from a snapshot of this one; None: there is none.

        After a compatible change the job goes on, and its output is what it would have been. After an incompatible one
        the start must be refused if the snapshot holds state of the operator that was changed.
        """
        changed = None if self.pipeline is None else self.pipeline.changed(change, random)
        return None if changed is None else changed.graph()

    def close(self) -> None:
        """Removes what the job has left on local disks."""
        if self.folder is not None:
            self.folder.cleanup()

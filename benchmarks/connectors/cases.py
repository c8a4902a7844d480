"""What is a connector measured with?

A case knows how its outside is filled or emptied, what the connector is, and how the bare client does the same in one
process. It is pickled to the bare client's process, so it holds addresses, not connections.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from benchmarks.connectors.ratios import Run
from cutwater.connectors.contract import Sink, Source

#: How often Cutwater's checkpoints come, and how long the bare client's transactions last.
EPOCH_SECONDS = 1.0
FILLER = b"streams carry what they are given"


class Case(ABC):
    """`rows` is set before anything else."""

    name: ClassVar[str]
    kind: ClassVar[str]
    #: The ratio that is asked for.
    asked: ClassVar[float | None] = None
    #: What the bare client does, in a few words.
    bare_does: ClassVar[str]
    #: Slow servers get fewer.
    rows_share: ClassVar[float] = 1.0
    rows: int = 0

    @abstractmethod
    def bare(self) -> Run:
        """The bare client. In a process of its own."""


class SourceCase(Case):
    kind = "source"

    @abstractmethod
    def fill(self) -> None:
        """Puts the records there, once."""

    @abstractmethod
    def source(self) -> Source: ...

    def restore(self) -> None:
        """Before each run: some outsides are empty after they were read."""


class SinkCase(Case):
    kind = "sink"

    def clear(self) -> None:
        """Before each run: an empty outside."""

    @abstractmethod
    def sink(self) -> Sink: ...

    @staticmethod
    @abstractmethod
    def record(index: int) -> Any:
        """The same for both sides, which make it while they write."""

    def received(self) -> int | None:
        """How many records are there; None: it can't be told."""
        return None


def payload(index: int) -> bytes:
    """A hundred bytes of JSON."""
    return b'{"id": %d, "key": "user_%d", "value": %d, "text": "%s"}' % (index, index % 1000, index * 7 % 1000, FILLER)

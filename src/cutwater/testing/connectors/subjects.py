"""What does the author of a connector write, so that the kit can test it?

A subject: how the connector is made, how the outside is filled or looked at without it, and the server's handle.
Sources and sinks are tested with numbered records: 0, 1, 2, …

Everything here is called in the process of the test, on its thread, and may block; only `record` and `number_of` are
called in the slots. They are static methods, so that the subject need not travel there with its connections.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import pyarrow as pa

from cutwater.connectors.contract import Sink, Source


class Server(Protocol):
    """A server that a trial may do harm to."""

    def kill(self) -> None:
        """`kill -9`; the data stays."""

    def restart(self) -> None:
        """Starts it again, on the same address and data; returns when it answers."""

    def pause(self) -> None:
        """It hangs: connections stay open, nothing answers."""

    def resume(self) -> None:
        """It goes on."""


class SinkSubject(ABC):
    """A sink, and what its receiver has got."""

    #: None: there is none, or none that may be killed; those trials are left out.
    server: Server | None = None
    #: The sink gets typed batches with these columns. None: Python values.
    schema: pa.Schema | None = None

    @abstractmethod
    def sink(self) -> Sink:
        """The sink under test; the same target and settings every time. A trial may start several jobs with it."""

    @staticmethod
    def record(number: int) -> Any:
        """The record with this number, in a shape that the sink takes. In the slots; the same every time."""
        return {"n": number}

    @abstractmethod
    def received(self) -> Sequence[int]:
        """The numbers that are visible at the receiver now, repetitions included.

        As a reader with the right isolation sees them: what isn't committed is not there. Also called while a job
        runs. A receiver in which a record replaces itself has each number once.
        """

    def pending(self) -> Sequence[str]:
        """What was prepared, and neither committed nor rolled back: transactions, files, …; in words for people."""
        return ()

    def clear(self) -> None:
        """Before each trial: the receiver is empty, and nothing is pending."""


class SourceSubject(ABC):
    """A source, and a way to give it something to read."""

    server: Server | None = None
    #: False: the source never ends. The kit stops the job when everything has arrived.
    bounded: bool = True
    #: The source steps over records that it can't decode (`on_error="skip"`). False: the job must fail.
    skips_poison: bool = False

    @abstractmethod
    def fill(self, numbers: Iterable[int]) -> None:
        """Before each trial: the outside holds a record for each of these numbers, and nothing else.

        Over several splits, if the source knows splits.
        """

    @abstractmethod
    def source(self) -> Source:
        """The source under test, which begins with the first record; the same settings every time."""

    @staticmethod
    @abstractmethod
    def number_of(record: Any) -> int:
        """The number of a record of the source. In the slots."""

    def poison(self) -> None:
        """Adds one record that can't be decoded, behind or between the others.

        Not overridden: the source passes on whatever there is, and that trial is left out.
        """

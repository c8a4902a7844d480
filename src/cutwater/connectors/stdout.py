"""How do records get printed where the user looks?"""

from __future__ import annotations

import sys
from typing import Any

from cutwater.batches import Batch, rows_of
from cutwater.connectors.contract import Sink, SinkWriter, WriterContext


def stdout(prefix: str | None = None) -> StdoutSink:
    """Prints each record as a line, in the driver. Nothing is left out, as it is of what a function prints in a slot.

    Plain: records are printed as they come and printed again after a failure; some that were on their way when a slot
    died may be printed once or twice. Everything goes through the driver: meant for looking, not for volume.
    """
    return StdoutSink(prefix)


class StdoutSink(Sink):
    """Slots send finished text; the driver prints it."""

    def __init__(self, prefix: str | None) -> None:
        self._prefix = "" if prefix is None else f"{prefix}> "

    @property
    def name(self) -> str:
        return "stdout"

    def writer(self, context: WriterContext) -> SinkWriter:
        return StdoutWriter(self, context, self._prefix)

    def receive(self, value: Any) -> None:
        sys.stdout.write(value)
        sys.stdout.flush()


class StdoutWriter(SinkWriter):
    def __init__(self, sink: StdoutSink, context: WriterContext, prefix: str) -> None:
        super().__init__(sink)
        self._report = context.report
        self._prefix = prefix

    def write(self, batch: Batch) -> None:
        self._report("".join(f"{self._prefix}{value}\n" for value in rows_of(batch)))

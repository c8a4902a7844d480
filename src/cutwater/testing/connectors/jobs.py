"""Which job is run to test a connector?

    source → shape → rebalance → sink
          ↘ errors ↗          ↘ brake

The source is metered. The shuffle makes the job have channels, and gives a record that is read again to another writer
than before. Where the job tolerates poison, its dead letter goes to the sink as the number behind all others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from cutwater.api import restart
from cutwater.api.environment import Environment
from cutwater.api.jobs import JobHandle
from cutwater.config import Checkpoints
from cutwater.connectors.contract import Sink, Source
from cutwater.dead_letters import ERRORS, DeadLetter
from cutwater.testing.connectors.brake import BrakeSink
from cutwater.testing.connectors.controls import Controls
from cutwater.testing.connectors.metered import MeteredSource

PARALLELISM = 2
RESTARTS_MAX = 100
#: Long enough for some records to have come before the first barrier, which a trial may hold.
CHECKPOINT_EVERY = "300ms"


@dataclass(frozen=True, slots=True)
class JobUnderTest:
    """All that it takes to start the job, in this process or another: it can be pickled."""

    source: Source
    #: From the source's records to the sink's.
    shape: Callable[[Any], Any]
    sink: Sink
    records: int
    controls: Controls
    #: A folder for snapshots.
    storage: str
    #: Of the records behind `shape`.
    schema: pa.Schema | None = None
    #: What can't be decoded is received as the number `records`.
    tolerant: bool = False
    restarts_max: int = RESTARTS_MAX
    name: str = "connector under test"

    def submit(self, spark: Any, *, parallelism: int = PARALLELISM, restore: str | None = None) -> JobHandle:
        env = Environment(
            spark=spark,
            parallelism=parallelism,
            checkpoints=Checkpoints(every=CHECKPOINT_EVERY, storage=self.storage, tolerable_failures=RESTARTS_MAX),
            restart=restart.fixed_delay(attempts=self.restarts_max, delay="100ms"),
        )
        source = MeteredSource(self.source, self.controls)
        read = env.from_source(source, on_error="dead_letter" if self.tolerant else "fail", uid="source")
        records = read.map(self.shape, uid="shape")
        if self.tolerant:
            records = records.union(read.side_output(ERRORS).map(self._number_of_letter, uid="letters"))
        records = records.rebalance()
        if self.schema is not None:
            records = records.with_schema(self.schema, uid="typed")
        records.sink_to(self.sink, uid="sink")
        records.filter(_never, uid="nothing").sink_to(BrakeSink(self.controls), uid="brake")
        return env.submit(self.name, restore=restore)

    def _number_of_letter(self, letter: DeadLetter) -> int:
        return self.records


def _never(_: Any) -> bool:
    return False

"""A sink that commits in the driver: each epoch once, in order, with the rows of all tasks, whatever fails."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

import cutwater as cw
from cutwater.batches import Batch, rows_of
from cutwater.connectors.contract import Delivery, Sink, SinkWriter, WriterContext
from cutwater.errors import ConfigurationError, OperationsError
from cutwater.protocol.ids import CheckpointId
from cutwater.testing.harness import LocalLauncher

from .local import CHECKPOINT_EVERY, KillingLauncher

RECORDS = 200


class EpochsInDriver(Sink):
    """Keeps what it is given by epoch; every few calls it fails instead."""

    delivery = Delivery.WRITE_AHEAD
    commits_in_driver = True

    def __init__(self, *, fails_every: int = 0) -> None:
        self.fails_every = fails_every
        self.calls = 0
        self.epochs: dict[int, list[int]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return EpochsInDriver, ()

    @property
    def name(self) -> str:
        return "epochs"

    def writer(self, context: WriterContext) -> SinkWriter:
        return _Writer(self)

    def commit(self, committables: Sequence[bytes]) -> None:
        found: dict[int, list[int]] = {}
        for epoch, rows in map(msgspec.msgpack.decode, committables):
            found.setdefault(epoch, []).extend(rows)
        self.calls += bool(found)
        if found and self.fails_every and self.calls % self.fails_every == 0:
            raise OperationsError("the table is locked")
        for epoch in sorted(found):
            if self.epochs.setdefault(epoch, found[epoch]) != found[epoch]:
                raise ConfigurationError(f"epoch {epoch} came again with other rows")  # which nobody tries again

    def rows(self) -> list[int]:
        return sorted(row for rows in self.epochs.values() for row in rows)


class _Writer(SinkWriter):
    def __init__(self, sink: Sink) -> None:
        super().__init__(sink)
        self._rows: list[int] = []

    def write(self, batch: Batch) -> None:
        self._rows += rows_of(batch)

    def prepare(self, checkpoint: CheckpointId) -> list[bytes]:
        rows, self._rows = self._rows, []
        return [msgspec.msgpack.encode((int(checkpoint), rows))] if rows else []

    def commit(self, committables: Sequence[bytes]) -> None:
        """The driver does it."""


def run(sink: EpochsInDriver, launcher: LocalLauncher, **checkpoints: Any) -> cw.JobResult:
    env = cw.Environment(
        launcher=launcher,
        parallelism=3,
        checkpoints=cw.Checkpoints(every=CHECKPOINT_EVERY, **checkpoints),
        restart=cw.restart.fixed_delay(attempts=1_000, delay="0s"),
    )
    source = cw.sources.generator(lambda index: index, count=RECORDS, per_second=500, splits=3)
    env.from_source(source, uid="numbers").rebalance().sink_to(sink, uid="epochs")
    return env.execute("epochs", require="exactly_once")


@pytest.mark.parametrize("seed", range(4))
def test_every_row_is_committed_once_though_slots_die(seed: int) -> None:
    sink = EpochsInDriver()
    result = run(sink, KillingLauncher(seed=seed, kill_after_checkpoints=(1, 3)))
    assert result.restarts > 0
    assert sink.rows() == list(range(RECORDS))
    assert list(sink.epochs) == sorted(sink.epochs)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("fails_every", [2, 3])
def test_an_epoch_whose_commit_failed_is_committed_by_the_recovery(seed: int, fails_every: int) -> None:
    sink = EpochsInDriver(fails_every=fails_every)
    assert run(sink, LocalLauncher(seed=seed), max_concurrent=3).restarts > 0
    assert sink.rows() == list(range(RECORDS))


def test_a_sink_that_commits_in_the_driver_is_refused_without_checkpoints() -> None:
    env = cw.Environment(launcher=LocalLauncher(), checkpoints=cw.Checkpoints(mode="none"))
    env.from_collection([1, 2]).sink_to(EpochsInDriver())
    with pytest.raises(ConfigurationError, match='sink "epochs" needs checkpoints'):
        env.execute("epochs")

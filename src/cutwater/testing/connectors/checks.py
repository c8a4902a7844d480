"""What differs between the checks of sources, of sinks, and of both together?"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import cloudpickle

from cutwater.connectors import sinks, sources
from cutwater.connectors.contract import Delivery, Replay
from cutwater.errors import ConfigurationError
from cutwater.graph.guarantees import Guarantee, guarantee_of
from cutwater.protocol.modes import CheckpointMode
from cutwater.testing.connectors.controls import Controls
from cutwater.testing.connectors.jobs import JobUnderTest
from cutwater.testing.connectors.subjects import Server, SinkSubject, SourceSubject
from cutwater.testing.connectors.trials import Receiver

SPLITS = 8


class Check(ABC):
    """Which job is run, and what came of it."""

    name: str
    guarantee: Guarantee
    server: Server | None
    bounded: bool = True
    has_poison: bool = False
    skips_poison: bool = False
    can_tolerate: bool = False

    @abstractmethod
    def job(self, records: int, folder: Path, restarts_max: int, *, tolerant: bool = False) -> JobUnderTest:
        """Before a trial: prepares the outside, and builds the job."""

    def add_poison(self) -> None:
        raise NotImplementedError

    @property
    def receiver(self) -> Receiver | None:
        return None

    @abstractmethod
    def received(self, folder: Path) -> Sequence[int]: ...

    def pending(self) -> Sequence[str]:
        return ()


class SinkCheck(Check):
    def __init__(self, subject: SinkSubject) -> None:
        _check_portable(subject, "record")
        sink = subject.sink()
        self._subject = subject
        self.name = f"sink {sink.name}"
        self.guarantee, _ = guarantee_of(Replay.REPLAYABLE, CheckpointMode.EXACTLY_ONCE, sink.delivery)
        self.server = subject.server

    def job(self, records: int, folder: Path, restarts_max: int, *, tolerant: bool = False) -> JobUnderTest:
        assert not tolerant, "the records of a sink can all be read"
        self._subject.clear()
        return JobUnderTest(
            source=sources.generator(int, count=records, splits=SPLITS),
            shape=self._subject.record,
            sink=self._subject.sink(),
            records=records,
            controls=Controls(str(folder / "controls")),
            storage=str(folder / "checkpoints"),
            schema=self._subject.schema,
            restarts_max=restarts_max,
        )

    @property
    def receiver(self) -> Receiver:
        return _receiver_of(self._subject)

    def received(self, folder: Path) -> Sequence[int]:
        return self._subject.received()

    def pending(self) -> Sequence[str]:
        return self._subject.pending()


class PairCheck(SinkCheck):
    """The sink decides what is received; the source, what there is to read."""

    def __init__(self, source_subject: SourceSubject, sink_subject: SinkSubject) -> None:
        super().__init__(sink_subject)
        _check_portable(source_subject, "number_of")
        source, sink = source_subject.source(), sink_subject.sink()
        self._source_subject = source_subject
        self.name = f"source {source.name} to sink {sink.name}"
        self.guarantee, _ = guarantee_of(source.replay, CheckpointMode.EXACTLY_ONCE, sink.delivery)
        self.server = sink_subject.server or source_subject.server
        self.bounded = source_subject.bounded

    def job(self, records: int, folder: Path, restarts_max: int, *, tolerant: bool = False) -> JobUnderTest:
        self._source_subject.fill(range(records))
        job = super().job(records, folder, restarts_max, tolerant=tolerant)
        number_of, record = self._source_subject.number_of, self._subject.record
        return replace(job, source=self._source_subject.source(), shape=lambda read: record(number_of(read)))


class SourceCheck(Check):
    def __init__(self, subject: SourceSubject) -> None:
        _check_portable(subject, "number_of")
        source = subject.source()
        self._subject = subject
        self.name = f"source {source.name}"
        self.guarantee, _ = guarantee_of(source.replay, CheckpointMode.EXACTLY_ONCE, Delivery.TRANSACTIONAL)
        self.server = subject.server
        self.bounded = subject.bounded
        self.has_poison = type(subject).poison is not SourceSubject.poison
        self.skips_poison = subject.skips_poison
        self.can_tolerate = source.can_tolerate

    def job(self, records: int, folder: Path, restarts_max: int, *, tolerant: bool = False) -> JobUnderTest:
        self._subject.fill(range(records))
        return JobUnderTest(
            source=self._subject.source(),
            shape=self._subject.number_of,
            sink=sinks.json_lines(folder / "received"),
            records=records,
            controls=Controls(str(folder / "controls")),
            storage=str(folder / "checkpoints"),
            tolerant=tolerant,
            restarts_max=restarts_max,
        )

    def add_poison(self) -> None:
        self._subject.poison()

    def received(self, folder: Path) -> Sequence[int]:
        paths = (folder / "received").glob("*.jsonl")
        return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


def _receiver_of(subject: SinkSubject) -> Receiver:
    can_tell = type(subject).pending is not SinkSubject.pending
    return Receiver(subject.received, subject.pending if can_tell else None)


def _check_portable(subject: object, method: str) -> None:
    try:
        cloudpickle.dumps(getattr(subject, method))
    except Exception as error:
        raise ConfigurationError(
            f"{type(subject).__name__}.{method} can't be sent to the slots",
            detail=f"{type(error).__name__}: {error}",
            hint=f"make it a static method: @staticmethod def {method}(…)",
        ) from error

"""How is an example run by a test: on which storage, how fast, and until what?"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Unpack

import cutwater as cw
from cutwater.api.dataflow import OperatorSettings
from cutwater.batches import Batch
from cutwater.connectors.contract import ReaderContext, Source, SplitReader
from cutwater.demo.books import Paced, _PacedReader
from cutwater.protocol.splits import Split

from .pipelines import Pipeline


class Gated(Paced):
    """Slow, until a file is there: then as fast as can be."""

    def __init__(self, source: Source, per_second: float, gate: Path) -> None:
        super().__init__(source, per_second)
        self._gate = gate

    def narrowed(self, columns: frozenset[str], as_keys: frozenset[str]) -> Source:
        return Gated(self._source.narrowed(columns, as_keys), self._per_second, self._gate)

    def reader(self, split: Split, position: Any, context: ReaderContext) -> SplitReader:
        return _GatedReader(self._source.reader(split, position, context), self._per_second, self._gate)


class _GatedReader(_PacedReader):
    def __init__(self, reader: SplitReader, per_second: float, gate: Path) -> None:
        super().__init__(reader, per_second)
        self._gate = gate

    def read(self, limit: int, now_seconds: float) -> Batch | None:
        return self._reader.read(limit, now_seconds) if self._gate.exists() else super().read(limit, now_seconds)


class PacedEnvironment(cw.Environment):
    """Slows sources down to a stream, so that there is something left to do when a worker is killed."""

    def __init__(self, paces: dict[str, float], gate: Path, **options: Any) -> None:
        super().__init__(**options)
        self._paces = paces
        self._gate = gate

    def from_source(self, source: Source, **settings: Unpack[OperatorSettings]) -> cw.DataStream:
        pace = self._paces.get(settings.get("uid", ""))
        return super().from_source(source if pace is None else Gated(source, pace, self._gate), **settings)


class Workbench:
    """Input, output and snapshots of one pipeline in one test; runs that follow each other share them."""

    def __init__(self, pipeline: Pipeline, root: Path, spark: Any) -> None:
        self.pipeline = pipeline
        self.input = root / "input"
        self.output = root / "output"
        self._root = root
        self._gate = root / "gate"
        self._spark = spark
        pipeline.write(self.input)
        self.golden = pipeline.golden(self.input)

    def found(self) -> Any:
        return self.pipeline.found(self.output)

    def environment(
        self,
        *,
        paced: bool,
        parallelism: int = 2,
        checkpoints: dict[str, Any] | None = None,
        slower: float = 1.0,
        **options: Any,
    ) -> cw.Environment:
        """The pipeline, ready to run; `slower`: its stream lasts so many times as long."""
        if checkpoints is not None:
            options["checkpoints"] = cw.Checkpoints(**checkpoints)
        paces = {uid: pace / slower for uid, pace in self.pipeline.paces.items()} if paced else {}
        env = self.bare_environment(paces, parallelism=parallelism, **options)
        self.pipeline.build(env, self.input, self.output)
        return env

    def bare_environment(self, paces: dict[str, float] | None = None, **options: Any) -> cw.Environment:
        """The same settings without a job."""
        storage = f"file://{self._root}/checkpoints"
        settings: dict[str, Any] = {
            "parallelism": 2,
            "checkpoints": cw.Checkpoints(every="200ms", storage=storage, tolerable_failures=50),
            "restart": cw.restart.fixed_delay(attempts=5, delay="0s"),
        }
        return PacedEnvironment(paces or {}, self._gate, spark=self._spark, **{**settings, **options})

    def let_go(self) -> None:
        """From now on nothing is slow."""
        self._gate.touch()

    def visible(self) -> list[Path]:
        """Files that a checkpoint has committed."""
        return [path for path in self.output.rglob("*.*") if path.is_file() and path.parent.name != ".pending"]

    def pending(self) -> list[Path]:
        """Files that none has."""
        return list(self.output.rglob(".pending/*"))

    def wait_for_output(self, job: cw.JobHandle) -> cw.JobStatus:
        """A moment when the job runs, and has committed a part of its output."""
        return wait_for(job, lambda status: status.state is cw.JobState.RUNNING and bool(self.visible()))


def wait_for(job: cw.JobHandle, holds: Callable[[cw.JobStatus], bool], seconds: float = 90.0) -> cw.JobStatus:
    """The job when something holds; its own failure if it ends before."""
    deadline = time.monotonic() + seconds
    while not holds(status := job.status()):
        if status.state.terminal:
            job.wait()
            raise AssertionError(f"the job is {status.state} before the expected happened")
        assert time.monotonic() < deadline, f"did not happen in {seconds} s: {status}"
        time.sleep(0.005)
    return status

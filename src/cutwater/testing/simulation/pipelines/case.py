"""How does a drawn pipeline become a case of the simulator?"""

from __future__ import annotations

from collections import Counter
from random import Random
from tempfile import TemporaryDirectory

from cutwater.config import Checkpoints, JobOptions
from cutwater.testing.simulation.cases import Case
from cutwater.testing.simulation.pipelines.grammar import draw_pipeline
from cutwater.testing.simulation.pipelines.pipeline import SINK, Pipeline

STATE_MEMORY = "8MB"


def draw_case(random: Random) -> Case:
    """A pipeline of the grammar."""
    return case_of(draw_pipeline(random))


def draw_restless_case(random: Random) -> Case:
    """One whose sources fall silent and come back: see `sources`."""
    return case_of(draw_pipeline(random, "restless"))


def case_of(pipeline: Pipeline) -> Case:
    folder = TemporaryDirectory(prefix="simulated-") if pipeline.backend == "rocksdb" else None
    return Case(
        graph=pipeline.graph(),
        sources={branch.source.operator: branch.source.source() for branch in pipeline.branches},
        sinks=(SINK,) if pipeline.sink == "transactional" else (),
        output=lambda read: Counter(),
        state=lambda read: {},
        mode=pipeline.mode,
        timed=pipeline.time == "kept",
        pipeline=pipeline,
        options=JobOptions(
            checkpoints=Checkpoints(mode=pipeline.mode, storage="simulated"),
            state_backend=pipeline.backend,
            state_memory=STATE_MEMORY,
            local_folder=None if folder is None else folder.name,
        ),
        folder=folder,
    )

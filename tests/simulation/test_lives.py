"""Jobs that are stopped, cancelled and killed, and started again from what was left."""

from __future__ import annotations

from collections import Counter
from unittest.mock import patch

import pytest

from cutwater.testing.simulation.conditions import KINDS, Origin, draw_conditions
from cutwater.testing.simulation.connectors import SimulatedSink
from cutwater.testing.simulation.run import Run, run_seed

pytestmark = pytest.mark.simulation

SEEDS = range(300)


def test_every_kind_of_fault_happens_in_a_campaign() -> None:
    never = {kind for _, kinds in KINDS for kind in kinds}
    for seed in SEEDS:
        never -= {kind for kind, times in run_seed(seed).injected.items() if times}
        if not never:
            return
    assert never == set()


def test_a_job_without_checkpoints_lives_once() -> None:
    assert all(len(Run(seed, "at_most_once", trace=False).world.conditions.lives) == 1 for seed in range(40))


def test_lives_are_drawn_often() -> None:
    from random import Random

    drawn = [draw_conditions(Random(seed), coordinator_may_fail=True).lives for seed in range(200)]
    origins = Counter(life.origin for lives in drawn for life in lives[1:])
    assert sum(len(lives) > 1 for lives in drawn) > 100
    assert min(origins[origin] for origin in Origin) > 5


def test_a_life_that_rolls_back_what_another_has_prepared_is_found() -> None:
    def recover(self: SimulatedSink, **given: object) -> None:
        from cutwater.testing.simulation import registry

        self.commit(given["committables"])  # type: ignore[arg-type]
        for path in registry.current().storage.list(f"out/{self.uid}/pending"):
            registry.current().storage.delete(path)

    with patch.object(SimulatedSink, "recover", recover):
        assert any(run_seed(seed, "word_count").broken is not None for seed in SEEDS)

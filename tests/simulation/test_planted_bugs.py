"""A simulator that can't fail is worse than none: break production code, and watch it go red."""

from __future__ import annotations

import pytest

from cutwater.testing.simulation.planted import BUGS, PlantedBug
from cutwater.testing.simulation.run import run_seed

pytestmark = pytest.mark.simulation


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_found_and_its_seed_is_green_without_it(bug: PlantedBug) -> None:
    with bug.planted():
        found = next((seed for seed in bug.seeds if run_seed(seed, bug.job).broken is not None), None)
    assert found is not None, f"not within {bug.seeds_max} seeds"
    assert found < bug.seeds_max
    assert run_seed(found, bug.job).broken is None

"""The real file sink on simulated files, from life to life."""

from __future__ import annotations

from collections import Counter
from random import Random
from unittest.mock import patch

import pytest

from cutwater.connectors.file_publishing import Publisher
from cutwater.testing.simulation.conditions import Milestone, Origin, Place, draw_conditions, with_files
from cutwater.testing.simulation.files import SimulatedFiles
from cutwater.testing.simulation.run import Outcome, Run, run_seed
from cutwater.testing.simulation.storage import SimulatedStorage
from cutwater.testing.simulation.trace import Trace
from cutwater.testing.simulation.world import Crashed, Process, World

pytestmark = pytest.mark.simulation

PATH = "simulated-files://a/.pending/one"


def calm_world() -> World:
    conditions = draw_conditions(Random(1), coordinator_may_fail=True, calm=True)
    return World(conditions, Random(1), Trace(on=False), events_max=100, seconds_max=100.0)


def calm_files() -> tuple[World, SimulatedFiles]:
    world = calm_world()
    return world, SimulatedFiles(world, SimulatedStorage(world))


def with_files_only(seeds: range) -> list[int]:
    found = []
    for seed in seeds:
        run = Run(seed, None, trace=False)
        run.case.close()
        if run.file_output is not None:
            found.append(seed)
    return found


def test_a_good_part_of_all_runs_writes_files() -> None:
    assert len(with_files_only(range(60))) > 15


def test_a_seed_is_the_same_run_twice_though_copies_have_random_names() -> None:
    copied: list[str] = []
    original = Publisher._publish_copy

    def publish_copy(self: Publisher, file: object, pieces: object, name: str) -> None:
        copied.append(name)
        original(self, file, pieces, name)  # type: ignore[arg-type]

    def traced(seed: int) -> Outcome:
        copied.clear()
        return run_seed(seed, trace=True)

    with patch.object(Publisher, "_publish_copy", publish_copy):
        seed = next(seed for seed in range(100) if run_seed(seed).injected[Place.OTHER] and copied)
        assert traced(seed).trace.digest() == traced(seed).trace.digest()
        assert copied


def test_lives_with_files_go_on_from_all_kinds_of_things_after_failures_behind_savepoints() -> None:
    origins: Counter[Origin] = Counter()
    behind_savepoints = 0
    for seed in range(100):
        random = Random(seed)
        lives = with_files(draw_conditions(random, coordinator_may_fail=True), random).lives
        origins.update(life.origin for life in lives[1:])
        behind_savepoints += any(moment.milestone is Milestone.SAVED for life in lives for moment, _ in life.faults)
        assert lives[-1].ending is None
    assert min(origins[origin] for origin in Origin) > 3
    assert behind_savepoints > 30


def test_what_a_process_has_not_flushed_vanishes_with_it() -> None:
    world, files = calm_files()
    world.current = process = Process(world, "slot")
    writing = files.create(PATH)
    writing.write(b"kept")
    files.sync(writing)
    writing.write(b"lost")
    process.end("crashed")
    writing.close()
    assert files.content(PATH) == b"kept"


def test_a_process_that_is_gone_does_nothing_more() -> None:
    world, files = calm_files()
    files.create(PATH).close()
    world.current = process = Process(world, "slot")
    process.end("crashed")
    with pytest.raises(Crashed):
        files.delete(PATH)
    assert files.content(PATH) == b""


def test_a_file_has_two_names_and_a_name_one_file() -> None:
    _, files = calm_files()
    for path in (PATH, f"{PATH}-other"):
        files.create(path).close()
    files.publish(PATH, "simulated-files://a/part")
    assert files.same(PATH, "simulated-files://a/part")
    with pytest.raises(FileExistsError):
        files.publish(f"{PATH}-other", "simulated-files://a/part")
    files.delete(PATH)
    assert files.names("simulated-files://a") == [".pending", "part"]
    assert [found.path for found in files.matching("simulated-files://a")] == ["simulated-files://a/part"]

"""What may a test do, and for how long?

The folder decides: unit and property tests neither wait nor import pyspark; tests under spark, services, browser,
simulation and fuzz carry the marker of their folder. Trials, which take long, are left out unless CUTWATER_TRIALS=all.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

TESTS = Path(__file__).parent
FOLDERS_WITH_A_MARKER = ("spark", "services", "simulation", "fuzz", "browser")
#: Seconds that tests of these folders may take; the rest has what pyproject.toml says.
TIMEOUTS_SECONDS = {"spark": 300, "browser": 300, "services": 600, "simulation": 600}

# A loaded machine makes any deadline per example a lie; a failure prints what reproduces it.
settings.register_profile("cutwater", deadline=None, print_blob=True)
settings.load_profile("cutwater")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if os.environ.get("CUTWATER_TRIALS") != "all":
        trials = [item for item in items if item.get_closest_marker("trials") is not None]
        config.hook.pytest_deselected(items=trials)
        items[:] = [item for item in items if item not in trials]
    for item in items:
        folders = _folders_of(item)
        for marker in set(folders) & set(FOLDERS_WITH_A_MARKER):
            item.add_marker(marker)
        if folders[:2] == ("unit", "runtime_flight"):
            item.add_marker("threads")
        for folder in set(folders) & set(TIMEOUTS_SECONDS):
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(TIMEOUTS_SECONDS[folder]))


@pytest.fixture(autouse=True, scope="session")
def _jobs_of_tests_are_not_the_users(tmp_path_factory: pytest.TempPathFactory) -> None:
    os.environ["CUTWATER_JOBS_FOLDER"] = str(tmp_path_factory.mktemp("jobs"))


@pytest.fixture(autouse=True)
def _neither_sleep_nor_pyspark(request: pytest.FixtureRequest) -> Iterator[None]:
    if _folders_of(request.node)[:1] not in {("unit",), ("property",)}:
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "pyspark", None)  # any import of it now raises ImportError
        if request.node.get_closest_marker("threads") is None:
            patch.setattr(time, "sleep", _refuse_to_sleep)
        yield


_sleep = time.sleep


def _refuse_to_sleep(seconds: float) -> None:
    if seconds > 0 and threading.current_thread() is threading.main_thread():
        pytest.fail("a unit test slept: pass the time in, or mark the test with `threads`", pytrace=True)
    _sleep(seconds)


def _folders_of(item: pytest.Item) -> tuple[str, ...]:
    try:
        return item.path.relative_to(TESTS).parts[:-1]
    except ValueError:  # a test outside of tests/, e.g. a doctest
        return ()

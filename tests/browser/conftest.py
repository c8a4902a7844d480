"""When Chromium can't be installed, tests are skipped with the reason; with CUTWATER_REQUIRE_SERVERS=1 they fail."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

# As `python -m servers` does, in the folder of the project.
sys.path.insert(0, str(Path(__file__).parents[2]))

from servers.chromium import Chromium
from servers.install import reason_why_missing


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One for each file: as long as it is open, Playwright's event loop occupies the main thread."""
    reason = reason_why_missing(Chromium)
    if reason is not None:
        message = f"no {Chromium.name}: {reason}"
        pytest.fail(message, pytrace=False) if os.environ.get("CUTWATER_REQUIRE_SERVERS") == "1" else pytest.skip(
            message
        )
    from tests.browser.driving import chromium

    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def driver(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from tests.browser.driving import Driver

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CUTWATER_JOBS_FOLDER", "")  # set by the driver, and as before afterwards
        made = Driver(tmp_path_factory.mktemp("driver"))
        yield made
        made.end()

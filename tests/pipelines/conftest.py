"""A Spark session for each module, gone before the next folder makes its own, and the examples as modules."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

# As `cutwater run examples/x.py` does: the example finds its neighbours.
sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
# As `python -m benchmarks.run` does, in the folder of the project.
sys.path.insert(0, str(Path(__file__).parents[2]))


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    """Six cores: up to four slots, one that is replaced, and one for a query."""
    from cutwater.deploy.session import embedded_session

    session = embedded_session(6)
    yield session
    session.stop()

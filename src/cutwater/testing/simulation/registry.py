"""In which world does a pickled source, sink or function find itself?

Connectors and functions travel to the slots as bytes, as in production. There they reach for the run around them
through here. A process runs one seed at a time, so one place is enough; `entered` is the only writer.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cutwater.testing.simulation.run import Run

_running: list[Run] = []


@contextmanager
def entered(run: Run) -> Iterator[None]:
    """Everything inside happens in this run."""
    _running.append(run)
    try:
        yield
    finally:
        _running.pop()


def current() -> Run:
    return _running[-1]

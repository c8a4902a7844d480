"""Do slots come back when a whole executor is killed?"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from .conftest import Slots, alive, wait_until


@pytest.fixture
def cluster(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Two executors of two cores each, in processes of their own."""
    from cutwater.deploy.session import embedded_session

    session = embedded_session(4, settings={"spark.master": "local-cluster[2,2,1024]", "spark.task.maxFailures": "4"})
    yield session
    session.stop()


def test_the_slots_of_a_killed_executor_are_replaced(cluster: Any) -> None:
    slots = Slots(cluster)
    try:
        slots.pool.ensure(3)
        assert wait_until(lambda: len(slots.registered) == 3)
        executor = _executor_of(slots.pids()[0])
        doomed = [pid for pid in slots.pids() if _executor_of(pid) == executor]
        os.kill(executor, signal.SIGKILL)
        assert wait_until(lambda: len(slots.lost) == len(doomed))
        assert wait_until(lambda: len(slots.registered) == 3)
        assert not any(map(alive, doomed))
    finally:
        slots.stop()


def _executor_of(pid: int) -> int:
    """The Java process above the Python daemon that forked the slot."""
    return next(parent.pid for parent in psutil.Process(pid).parents() if "java" in parent.name())

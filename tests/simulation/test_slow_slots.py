"""What becomes of slots that take long, that hang, or that could not load the job?"""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from cutwater.api.environment import Environment
from cutwater.api.launching import LaunchOptions
from cutwater.config import Checkpoints
from cutwater.connectors.contract import Delivery, Sink, SinkWriter
from cutwater.connectors.sinks import discard
from cutwater.errors import JobFailedError
from cutwater.graph.plan import JobPlan
from cutwater.protocol.restart import fixed_delay, none
from cutwater.status import JobStatus
from cutwater.testing.harness import LocalJob
from cutwater.testing.simulation import registry

pytestmark = pytest.mark.simulation


class WatchingLauncher:
    """As `LocalLauncher`, but functions find the world, and the status is looked at every ten seconds."""

    def __init__(self) -> None:
        self.seen: list[JobStatus] = []
        self.job: Any = None

    def launch(self, plan: JobPlan, options: LaunchOptions) -> LocalJob:
        self.job = LocalJob(plan, options, 0, None)
        self.job.world.after(10.0, self._look)
        with registry.entered(self.job):
            self.job.play()
        return self.job

    def _look(self) -> None:
        self.seen.append(self.job.status())
        self.job.world.after(10.0, self._look)


class Model:
    """Takes so long to load."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def open(self, context: Any) -> None:
        registry.current().world.pause(self._seconds)

    def process(self, record: Any, context: Any) -> Any:
        yield record


def test_an_open_of_several_minutes_succeeds_and_is_spoken_of() -> None:
    launcher = WatchingLauncher()
    env = Environment(launcher=launcher, restart=none())
    result = env.from_collection([1, 2]).process(Model(400.0), uid="model").execute_and_collect()
    assert result == [1, 2]
    waited = [status.waiting_for for status in launcher.seen if status.waiting_for]
    assert len(waited) >= 35
    assert all('open of operator "model" in slot' in text for text in waited)
    assert waited[0].partition(" since ")[2] != waited[-1].partition(" since ")[2]


def test_an_open_that_outlasts_the_timeout_names_the_operator() -> None:
    env = Environment(launcher=WatchingLauncher(), restart=none(), deploy_timeout="60s")
    with pytest.raises(JobFailedError, match='operator "model" did not open in slot'):
        env.from_collection([1, 2]).process(Model(400.0), uid="model").execute_and_collect()


class HangsOnce:
    """The first slot that calls it does not come back: it reads from a disk that is gone."""

    hung: ClassVar[list[str]] = []

    def __call__(self, record: int) -> int:
        world = registry.current().world
        if not self.hung:
            self.hung.append(world.current.name)
            world.pause(1_000.0)
        return record


def test_a_slot_that_never_drops_its_tasks_is_replaced() -> None:
    HangsOnce.hung.clear()
    launcher = WatchingLauncher()
    env = Environment(
        parallelism=2,
        launcher=launcher,
        checkpoints=Checkpoints(every="1s", timeout="20s"),
        restart=fixed_delay(attempts=1, delay_seconds=1.0),
    )
    numbers = env.from_collection([0, 1, 2, 3]).rebalance().map(HangsOnce(), uid="hang")
    assert sorted(numbers.execute_and_collect()) == [0, 1, 2, 3]
    status = launcher.job.status()
    assert status.restarts == 1
    (hung,) = HangsOnce.hung
    assert status.warnings == (f"slot {hung} is replaced: it has not dropped attempt 1 in 30 s, and may hang",)
    assert hung not in [slot.slot for slot in status.slots]


class LoadsAtTheSecondTry:
    """It needs something that the slot's host does not have yet."""

    tries: ClassVar[list[int]] = []

    def __getstate__(self) -> Any:
        return {"something": 1}

    def __setstate__(self, state: Any) -> None:
        if registry._running:  # in a slot
            self.tries.append(1)
            if len(self.tries) == 1:
                raise OSError("share not mounted yet")


class Function(LoadsAtTheSecondTry):
    def __call__(self, record: int) -> int:
        return record


class Nothing(SinkWriter):
    def write(self, batch: Any) -> None:
        pass


class NoSink(LoadsAtTheSecondTry, Sink):
    delivery = Delivery.IDEMPOTENT
    name = "nothing"

    def writer(self, context: Any) -> SinkWriter:
        return Nothing(self)


@pytest.mark.parametrize(("what", "fact"), [("function", 'operator "load"'), ("sink", "the job")])
def test_what_could_not_be_loaded_once_is_loaded_by_the_next_attempt(what: str, fact: str) -> None:
    LoadsAtTheSecondTry.tries.clear()
    launcher = WatchingLauncher()
    env = Environment(launcher=launcher, restart=fixed_delay(attempts=1, delay_seconds=1.0))
    stream = env.from_collection([1, 2]).map(Function() if what == "function" else str, uid="load")
    stream.sink_to(NoSink() if what == "sink" else discard(), uid="out")
    env.execute("loads")
    (recovery,) = launcher.job.status().recoveries
    assert recovery.cause.startswith(f"{fact} can't be loaded in a slot (OSError: share not mounted yet)")

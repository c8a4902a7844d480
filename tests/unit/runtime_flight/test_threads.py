"""Does an actor sleep while there is nothing to do, and wake when there is?"""

from __future__ import annotations

import threading
import time

import pytest

from cutwater.runtime.threads import ActorLoop, MonotonicClock, OwnBackgroundThread, ThreadBackground

from .waiting import wait_until


class Counter:
    """An actor that counts its steps and ends when told to."""

    def __init__(self, wake_after_seconds: float | None = None) -> None:
        self.steps = 0
        self.ended = False
        self._wake_after_seconds = wake_after_seconds

    def step(self) -> bool:
        self.steps += 1
        if self._wake_after_seconds is not None and self.steps > 1:
            self.ended = True
        return False

    def wake_at(self) -> float | None:
        return None if self._wake_after_seconds is None else time.monotonic() + self._wake_after_seconds


def test_an_idle_actor_is_not_stepped_until_it_is_woken() -> None:
    loop, actor = ActorLoop(MonotonicClock()), Counter()
    thread = threading.Thread(target=loop.run, args=(actor, lambda: actor.ended))
    thread.start()
    time.sleep(0.1)
    steps_idle = actor.steps
    loop.wake()
    time.sleep(0.05)
    steps_woken = actor.steps
    loop.post(lambda: setattr(actor, "ended", True))
    thread.join(1)
    assert (steps_idle, steps_woken, thread.is_alive()) == (1, 2, False)


def test_an_actor_is_stepped_at_the_time_it_asked_for() -> None:
    loop, actor = ActorLoop(MonotonicClock()), Counter(wake_after_seconds=0.1)
    began = time.monotonic()
    loop.run(actor, lambda: actor.ended)
    assert 0.1 <= time.monotonic() - began < 0.5


def test_what_a_step_raises_ends_the_loop() -> None:
    class Failing(Counter):
        def step(self) -> bool:
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        ActorLoop(MonotonicClock()).run(Failing(), lambda: False)


def test_background_work_reports_on_the_owners_thread() -> None:
    loop, actor = ActorLoop(MonotonicClock()), Counter()
    background = ThreadBackground(workers_max=2, post=loop.post)
    reports: list[tuple[object, str, bool]] = []

    def done(result: object, error: BaseException | None) -> None:
        reports.append((result, repr(error), threading.current_thread() is threading.main_thread()))
        actor.ended = len(reports) == 2

    background.submit(lambda: threading.current_thread() is threading.main_thread(), done)
    background.submit(lambda: 1 // 0, done)
    loop.run(actor, lambda: actor.ended)
    assert sorted(reports, key=str) == [
        (False, "None", True),
        (None, "ZeroDivisionError('integer division or modulo by zero')", True),
    ]
    background.close()


def test_background_work_runs_side_by_side_up_to_the_limit() -> None:
    loop, actor = ActorLoop(MonotonicClock()), Counter()
    background = ThreadBackground(workers_max=2, post=loop.post)
    assert wait_until(lambda: "cutwater-background" not in {thread.name for thread in threading.enumerate()})
    together = threading.Barrier(2)
    done_count = 0

    def done(result: object, error: BaseException | None) -> None:
        nonlocal done_count
        done_count += 1
        assert error is None
        actor.ended = done_count == 6

    for _ in range(6):
        background.submit(lambda: together.wait(5), done)
    loop.run(actor, lambda: actor.ended)
    workers = [thread for thread in threading.enumerate() if thread.name == "cutwater-background"]
    assert len(workers) == 2
    background.close()


def test_a_closed_background_reports_nothing() -> None:
    posted: list[object] = []
    background = ThreadBackground(workers_max=1, post=posted.append)
    release = threading.Event()
    background.submit(release.wait, lambda *_: None)
    background.close()
    release.set()
    background.submit(release.wait, lambda *_: None)
    time.sleep(0.05)
    assert posted == []


def test_a_drained_background_has_done_everything_but_waits_no_longer_than_told() -> None:
    release = threading.Event()
    done: list[int] = []
    background = ThreadBackground(workers_max=1, post=lambda work: None)
    background.submit(lambda: release.wait() and done.append(1), lambda *_: None)
    background.submit(lambda: done.append(2), lambda *_: None)
    background.drain(0.01)
    assert done == []
    release.set()
    background.drain(30)
    assert done == [1, 2]
    background.close()


def test_a_thread_of_its_own_works_in_order_and_is_waited_for_when_it_closes() -> None:
    began, release = threading.Event(), threading.Event()
    done: list[int] = []
    thread = OwnBackgroundThread(post=lambda work: None)
    thread.submit(lambda: done.append(1), lambda *_: None)
    thread.submit(lambda: (began.set(), release.wait(30), done.append(2)), lambda *_: None)
    assert began.wait(30)
    threading.Timer(0.05, release.set).start()
    thread.close()
    assert done == [1, 2]

"""Do the lines of a job come together in the driver, whatever the driver's logging does?"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator

import pytest

from cutwater import logs
from cutwater.deploy.log_relay import WAITING_MAX, LogRelay
from cutwater.protocol.ids import SlotId
from cutwater.runtime.messages import LinesLogged, LoggedLine

pytestmark = pytest.mark.threads

SLOT = SlotId("slot-1.7")
LINE = LoggedLine(5, "PRINT", "stdout", "hello", 2, "map[0]")


@pytest.fixture
def relay_of(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[str], LogRelay]]:
    caplog.set_level(logging.INFO, logger="cutwater")
    made: list[LogRelay] = []

    def make(job_id: str) -> LogRelay:
        made.append(LogRelay(job_id))
        return made[-1]

    yield make
    for relay in made:
        relay.close()


def test_lines_of_slots_are_remembered_and_logged(
    relay_of: Callable[[str], LogRelay], caplog: pytest.LogCaptureFixture
) -> None:
    relay = relay_of("orders")
    relay.take(SLOT, LinesLogged((LINE,), dropped=1234))
    relay.close()
    first, second = relay.after(0)
    assert (first.text, first.slot, first.attempt, first.task, first.level) == ("hello", SLOT, 2, "map[0]", "PRINT")
    assert (second.text, second.slot) == ("… 1,234 lines more were dropped: too many at once", SLOT)
    assert caplog.messages == ["[map[0] slot-1] hello", "[slot-1] … 1,234 lines more were dropped: too many at once"]
    record = caplog.records[0]
    assert [getattr(record, name) for name in ("job", "attempt", "task", "slot")] == ["orders", 2, "map[0]", SLOT]


def test_the_drivers_own_lines_are_there_too_each_in_the_book_of_its_job(relay_of: Callable[[str], LogRelay]) -> None:
    orders, others = relay_of("orders"), relay_of("others")
    logs.logger.warning("about orders", extra={"job": "orders", "attempt": 3})
    logging.getLogger("cutwater.serving").warning("about no job")
    assert [(line.text, line.attempt, line.slot) for line in orders.after(0)] == [
        ("about orders", 3, ""),
        ("about no job", 0, ""),
    ]
    assert [line.text for line in others.after(0)] == ["about no job"]


class Stuck(logging.Handler):
    """Blocks, as a full pipe does."""

    def __init__(self) -> None:
        super().__init__()
        self.entered = threading.Event()
        self.free = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.entered.set()
        self.free.wait()


def test_a_handler_that_blocks_holds_up_nobody_and_what_is_dropped_is_counted(
    relay_of: Callable[[str], LogRelay],
) -> None:
    stuck = Stuck()
    logs.slots_logger.addHandler(stuck)
    try:
        relay = relay_of("orders")
        relay.take(SLOT, LinesLogged((LINE,)))
        stuck.entered.wait()
        for _ in range(WAITING_MAX + 5):
            relay.take(SLOT, LinesLogged((LINE,), dropped=9))
        stuck.free.set()
        while not relay._queue.empty():
            stuck.entered.wait(0.01)
        relay.take(SLOT, LinesLogged((LINE,)))
        relay.close()
    finally:
        stuck.free.set()
        logs.slots_logger.removeHandler(stuck)
    assert "… 50 lines more were dropped" in relay.after(0)[-1].text

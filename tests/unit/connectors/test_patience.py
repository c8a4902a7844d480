"""How long does a connector go on trying?"""

import pytest

from cutwater.connectors.bases.patience import FIRST_PAUSE_SECONDS, PAUSE_SECONDS_MAX, Patience
from cutwater.connectors.failures import PeerError

GONE = PeerError("connection refused")


class Clock:
    seconds = 0.0


def patience(clock: Clock) -> Patience:
    return Patience("sink", now_seconds=lambda: clock.seconds, seconds=60.0)


def test_pauses_grow_up_to_a_limit():
    waiting = patience(Clock())
    pauses = [waiting.failed(GONE) for _ in range(12)]
    assert (pauses[:2], pauses[-1]) == ([FIRST_PAUSE_SECONDS, 2 * FIRST_PAUSE_SECONDS], PAUSE_SECONDS_MAX)


def test_what_lasts_too_long_is_raised():
    clock = Clock()
    waiting = patience(clock)
    waiting.failed(GONE)
    clock.seconds = 60.0
    with pytest.raises(PeerError):
        waiting.failed(GONE)


def test_a_success_begins_anew():
    clock = Clock()
    waiting = patience(clock)
    waiting.failed(GONE)
    clock.seconds = 59.0
    waiting.succeeded()
    clock.seconds = 100.0
    assert waiting.failed(GONE) == FIRST_PAUSE_SECONDS

"""When is a call that failed tried again?"""

from __future__ import annotations

from typing import Any

import pytest

import cutwater as cw

ERROR = ValueError("no")


def pauses(retry: cw.retry.Retry, error: BaseException = ERROR) -> list[float | None]:
    return [retry.pause_seconds(attempt, error) for attempt in range(1, 6)]


def test_fixed_pauses_are_all_the_same() -> None:
    assert pauses(cw.retry.fixed(attempts=3, delay="100ms")) == [0.1, 0.1, None, None, None]


def test_exponential_pauses_grow_up_to_a_limit() -> None:
    assert pauses(cw.retry.exponential(attempts=5, delay="1s", factor=3, delay_max="5s")) == [1.0, 3.0, 5.0, 5.0, None]


def test_other_failures_than_those_named_are_final() -> None:
    retry = cw.retry.fixed(attempts=2, on=(TimeoutError,))
    assert (retry.pause_seconds(1, ERROR), retry.pause_seconds(1, TimeoutError())) == (None, 0.1)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"attempts": 0}, "attempts must be a whole number from 1"),
        ({"factor": 0.5}, "factor must be 1 or more"),
        ({"on": ValueError}, "on can't be"),
        ({"delay": 3}, "delay has no unit"),
    ],
)
def test_what_makes_no_sense_is_refused(settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(cw.errors.ConfigurationError, match=reason):
        cw.retry.exponential(**settings)

from __future__ import annotations

import pytest

from cutwater.durations import parse_duration


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("10 seconds", 10),
        ("1 second", 1),
        ("1 hour", 3600),
        ("5 minutes", 300),
        ("500 milliseconds", 0.5),
        ("1 day", 86400),
        ("2 Days", 172800),
        ("10 SECONDS", 10),
        ("250 microseconds", 0.00025),
        ("1 hour 30 minutes", 5400),
        ("1h30min", 5400),
        ("INTERVAL 10 seconds", 10),
        ("1.5s", 1.5),
        ("3 secs", 3),
    ],
)
def test_durations_are_read_as_people_who_know_spark_write_them(written: str, seconds: float) -> None:
    assert parse_duration(written) == pytest.approx(seconds)

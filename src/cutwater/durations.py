"""How long is "5min"?"""

from __future__ import annotations

import math
import re
from datetime import timedelta

from cutwater.errors import ConfigurationError

#: "100ms", "1.5s", "5min", "2h", "1d", or a timedelta. A bare number has no unit: seconds here, milliseconds in Flink.
Duration = str | timedelta

_SECONDS_PER_UNIT = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_WRITTEN = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*")


def parse_duration(duration: Duration | float, *, option: str = "duration") -> float:
    """Seconds, never negative; `option` is how error messages call the value."""
    match duration:
        case timedelta():
            seconds = duration.total_seconds()
        case int() | float() if duration == 0 and not isinstance(duration, bool):
            seconds = 0.0  # in every unit
        case int() | float() if not isinstance(duration, bool):
            raise ConfigurationError(
                f"{option} has no unit: {duration!r}",
                hint=f'write "{duration}ms" or "{duration}s", or give a timedelta',
            )
        case str():
            written = _WRITTEN.fullmatch(duration)
            if written is None or written[2] not in _SECONDS_PER_UNIT:
                raise _unreadable(duration, option)
            seconds = float(written[1]) * _SECONDS_PER_UNIT[written[2]]
        case _:
            raise _unreadable(duration, option)
    if not math.isfinite(seconds) or seconds < 0:
        raise ConfigurationError(f"{option} must be a finite time of zero or more, not {duration!r}")
    return seconds


def describe_seconds(seconds: float) -> str:
    """The shortest way to write it that loses nothing that matters: 0.1 → "100ms", 300 → "5min"."""
    if seconds == 0:
        return "0s"
    for unit in ("d", "h", "min", "s", "ms"):
        amount = seconds / _SECONDS_PER_UNIT[unit]
        if amount >= 1 and math.isclose(amount, round(amount), rel_tol=1e-9):
            return f"{round(amount)}{unit}"
    return f"{seconds:g}s"


def _unreadable(duration: object, option: str) -> ConfigurationError:
    return ConfigurationError(
        f"{option} is not a duration: {duration!r}",
        hint=f'write a number and a unit ({", ".join(_SECONDS_PER_UNIT)}) as in "500ms" or "10s", or give a timedelta',
    )

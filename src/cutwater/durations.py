"""How long is "5min"?"""

from __future__ import annotations

import math
import re
from datetime import timedelta

from cutwater.errors import ConfigurationError

#: "100ms", "1.5s", "5min", "2h", "1d", "10 seconds", "1 hour 30 minutes", or a timedelta. A bare number has no unit:
#: seconds here, milliseconds in Flink.
Duration = str | timedelta

_SECONDS_PER_UNIT = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
#: What people write besides; each also with an s behind it.
_SPELLED = {
    "microsecond": "us",
    "millisecond": "ms",
    "sec": "s",
    "second": "s",
    "minute": "min",
    "hr": "h",
    "hour": "h",
    "day": "d",
}
_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*")
_WRITTEN = re.compile(rf"(?:\s*interval\s)?(?:{_PART.pattern})+")


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
            seconds = _seconds_of(duration, option)
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


def _seconds_of(text: str, option: str) -> float:
    lower = text.lower()
    if not _WRITTEN.fullmatch(lower):
        raise _unreadable(text, option)
    seconds, larger = 0.0, math.inf
    for part in _PART.finditer(lower.replace("interval", "", 1)):
        unit = part[2] if part[2] in _SECONDS_PER_UNIT else _SPELLED.get(part[2].removesuffix("s"), "")
        if not unit or _SECONDS_PER_UNIT[unit] >= larger:  # "1h 30min", but not "30min 30min"
            raise _unreadable(text, option)
        larger = _SECONDS_PER_UNIT[unit]
        seconds += float(part[1]) * larger
    return seconds


def _unreadable(duration: object, option: str) -> ConfigurationError:
    return ConfigurationError(
        f"{option} is not a duration: {duration!r}",
        hint=f'write a number and a unit ({", ".join(_SECONDS_PER_UNIT)}) as in "500ms" or "10 seconds", or give a '
        "timedelta",
    )

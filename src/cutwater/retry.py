"""When is a call that failed tried again?

`import cutwater as cw; cw.retry.fixed(attempts=3, delay="100ms")`: at most three attempts in all, 100 ms apart. With
`on=(ConnectionError, TimeoutError)` other failures are final.
"""

from __future__ import annotations

from dataclasses import dataclass

from cutwater.durations import Duration, parse_duration
from cutwater.errors import ConfigurationError

__all__ = ["Retry", "exponential", "fixed"]

Errors = tuple[type[Exception], ...]


@dataclass(frozen=True, slots=True)
class Retry:
    """How often, after which pauses, and on which failures. A call that takes too long fails with a TimeoutError."""

    #: In all, the first one included.
    attempts: int
    delay_seconds: float
    #: Each pause is so many times as long as the one before.
    factor: float
    delay_seconds_max: float
    on: Errors

    def pause_seconds(self, attempt: int, error: BaseException) -> float | None:
        """How long to wait after this attempt (from 1) has failed; None: it was the last."""
        if attempt >= self.attempts or not isinstance(error, self.on):
            return None
        return float(min(self.delay_seconds * self.factor ** (attempt - 1), self.delay_seconds_max))


def fixed(attempts: int = 3, delay: Duration = "100ms", *, on: Errors = (Exception,)) -> Retry:
    """So many attempts in all, each after the same pause."""
    pause = parse_duration(delay, option="delay")
    return _checked(Retry(attempts, pause, 1.0, pause, on))


def exponential(
    attempts: int = 3,
    delay: Duration = "100ms",
    *,
    factor: float = 2.0,
    delay_max: Duration = "10s",
    on: Errors = (Exception,),
) -> Retry:
    """So many attempts in all; the first pause is `delay`, each further one `factor` times as long, up to a limit."""
    pause, longest = parse_duration(delay, option="delay"), parse_duration(delay_max, option="delay_max")
    return _checked(Retry(attempts, pause, factor, longest, on))


def _checked(retry: Retry) -> Retry:
    if isinstance(retry.attempts, bool) or not isinstance(retry.attempts, int) or retry.attempts < 1:
        raise ConfigurationError(f"attempts must be a whole number from 1, not {retry.attempts!r}")
    if not retry.factor >= 1:
        raise ConfigurationError(f"factor must be 1 or more, not {retry.factor!r}")
    if not (isinstance(retry.on, tuple) and all(_is_error(kind) for kind in retry.on)):
        raise ConfigurationError(
            f"on can't be {retry.on!r}", hint="give a tuple of exception classes: on=(ConnectionError, TimeoutError)"
        )
    return retry


def _is_error(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, Exception)

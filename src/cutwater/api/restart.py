"""What happens after a failure, in the words of a job's author?

`import cutwater as cw; cw.restart.fixed_delay(attempts=3, delay="10s")`. Each function returns a specification; the
machines that count failures are in `cutwater.protocol.restart`.
"""

from __future__ import annotations

from cutwater.durations import Duration, parse_duration
from cutwater.protocol import restart as protocol

__all__ = ["exponential_delay", "failure_rate", "fixed_delay", "none"]


def none() -> protocol.NoRestart:
    """The first failure is the last."""
    return protocol.none()


def fixed_delay(attempts: int = 3, delay: Duration = "10s") -> protocol.FixedDelay:
    """So many restarts over the whole life of the job, each after the same delay."""
    return protocol.fixed_delay(attempts, parse_duration(delay, option="delay"))


def failure_rate(max_failures: int = 3, interval: Duration = "5min", delay: Duration = "10s") -> protocol.FailureRate:
    """Restarts for ever, unless more than `max_failures` fall into one interval."""
    return protocol.failure_rate(
        max_failures, parse_duration(interval, option="interval"), parse_duration(delay, option="delay")
    )


def exponential_delay(
    initial: Duration = "1s",
    maximum: Duration = "1min",
    multiplier: float = 1.5,
    jitter: float = 0.1,
    reset_after: Duration = "1h",
    attempts: int | None = None,
) -> protocol.ExponentialDelay:
    """Restarts after delays that grow from `initial` to `maximum`; a job that ran for `reset_after` begins anew.

    `jitter` spreads each delay by that fraction either way; `attempts=None` never gives up.
    """
    return protocol.exponential_delay(
        initial_seconds=parse_duration(initial, option="initial"),
        max_seconds=parse_duration(maximum, option="maximum"),
        multiplier=multiplier,
        jitter=jitter,
        reset_after_seconds=parse_duration(reset_after, option="reset_after"),
        attempts=attempts,
    )

"""Does a job that failed start again, and when?

A specification is a value that a user writes down; `start` turns it into the machine that counts this job's failures.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from cutwater.errors import ConfigurationError

UNSPECIFIED_ATTEMPTS = 3
UNSPECIFIED_DELAY_SECONDS = 10.0

Random = Callable[[], float]
"""Draws from [0, 1)."""


@dataclass(frozen=True, slots=True)
class RestartAfter:
    """Begin a new attempt after the delay."""

    delay_seconds: float


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The job failed for good."""

    reason: str


Decision = RestartAfter | GiveUp


class RestartStrategy(Protocol):
    """Counts the failures of one job."""

    def failed(self, now_seconds: float, raised: str = "") -> Decision:
        """An attempt failed. `raised`: what a function of the job's author raised, and on which record; empty: the
        failure was another one."""

    def running(self, now_seconds: float) -> None:
        """All tasks of the new attempt run."""


class RestartSpecification(Protocol):
    """What `none`, `fixed_delay`, `failure_rate` and `exponential_delay` return."""

    def start(self, random: Random) -> RestartStrategy:
        """A fresh machine; `random` is drawn from for jitter only."""


@dataclass(frozen=True, slots=True)
class NoRestart:
    """The first failure is the last."""

    def start(self, random: Random) -> RestartStrategy:
        return _Never()


@dataclass(frozen=True, slots=True)
class Unspecified:
    """The author of the job has said nothing: machines and networks get three more chances, code that fails hardly any.

    A function that raised on a record raises on it again. Without a storage the job ends at the first such failure:
    its author sits in front of it. With one it ends when the same failure comes twice in a row.
    """

    #: None: whether the job's checkpoints have one.
    has_storage: bool | None = None

    def start(self, random: Random) -> RestartStrategy:
        return _UnspecifiedMachine(self)


@dataclass(frozen=True, slots=True)
class FixedDelay:
    """So many restarts over the whole life of the job, each after the same delay."""

    attempts: int
    delay_seconds: float

    def __post_init__(self) -> None:
        _demand(self.attempts >= 0, f"attempts can't be negative ({self.attempts})")
        _demand(self.delay_seconds >= 0, f"the delay can't be negative ({self.delay_seconds} s)")

    def start(self, random: Random) -> RestartStrategy:
        return _FixedDelayMachine(self)


@dataclass(frozen=True, slots=True)
class FailureRate:
    """Restarts for ever, unless more than `max_failures` fall into one interval."""

    max_failures: int
    interval_seconds: float
    delay_seconds: float

    def __post_init__(self) -> None:
        _demand(self.max_failures >= 0, f"max_failures can't be negative ({self.max_failures})")
        _demand(self.interval_seconds > 0, f"the interval must be positive ({self.interval_seconds} s)")
        _demand(self.delay_seconds >= 0, f"the delay can't be negative ({self.delay_seconds} s)")

    def start(self, random: Random) -> RestartStrategy:
        return _FailureRateMachine(self)


@dataclass(frozen=True, slots=True)
class ExponentialDelay:
    """Each failure waits longer, up to a limit; a job that ran for long enough starts from the beginning again.

    `jitter` 0.1 spreads a delay by a tenth either way, so that jobs which failed together don't come back together.
    """

    initial_seconds: float
    max_seconds: float
    multiplier: float
    jitter: float
    reset_after_seconds: float
    attempts: int | None

    def __post_init__(self) -> None:
        _demand(0 < self.initial_seconds <= self.max_seconds, "the first delay must be positive, up to the longest one")
        _demand(self.multiplier >= 1, f"the multiplier must be at least 1, not {self.multiplier}")
        _demand(0 <= self.jitter <= 1, f"the jitter is a fraction from 0 to 1, not {self.jitter}")
        _demand(self.reset_after_seconds >= 0, f"the reset can't be negative ({self.reset_after_seconds} s)")
        _demand(self.attempts is None or self.attempts >= 0, f"attempts can't be negative ({self.attempts})")

    def start(self, random: Random) -> RestartStrategy:
        return _ExponentialDelayMachine(self, random)


def none() -> NoRestart:
    """Never restart."""
    return NoRestart()


def fixed_delay(attempts: int, delay_seconds: float) -> FixedDelay:
    """Restart so many times, each after the same delay."""
    return FixedDelay(attempts, delay_seconds)


def failure_rate(max_failures: int, interval_seconds: float, delay_seconds: float) -> FailureRate:
    """Restart as long as at most `max_failures` fall into one interval."""
    return FailureRate(max_failures, interval_seconds, delay_seconds)


def exponential_delay(
    initial_seconds: float = 1,
    max_seconds: float = 60,
    multiplier: float = 1.5,
    jitter: float = 0.1,
    reset_after_seconds: float = 3600,
    attempts: int | None = None,
) -> ExponentialDelay:
    """Restart after delays that grow; `attempts=None` never gives up."""
    return ExponentialDelay(initial_seconds, max_seconds, multiplier, jitter, reset_after_seconds, attempts)


class _Never:
    def failed(self, now_seconds: float, raised: str = "") -> Decision:
        return GiveUp("the job has no restart strategy")

    def running(self, now_seconds: float) -> None:
        pass


class _UnspecifiedMachine:
    def __init__(self, specification: Unspecified) -> None:
        self._has_storage = bool(specification.has_storage)
        self._others = _FixedDelayMachine(FixedDelay(UNSPECIFIED_ATTEMPTS, UNSPECIFIED_DELAY_SECONDS))
        self._raised = ""

    def failed(self, now_seconds: float, raised: str = "") -> Decision:
        before, self._raised = self._raised, raised
        if raised and not self._has_storage:
            return GiveUp("a function that raised is not tried again, unless the job has restart=… or a storage")
        if raised and raised == before:
            return GiveUp("the same failure came twice in a row; with restart=… the job tries again all the same")
        return self._others.failed(now_seconds)

    def running(self, now_seconds: float) -> None:
        pass


class _FixedDelayMachine:
    def __init__(self, specification: FixedDelay) -> None:
        self._specification = specification
        self._failures = 0

    def failed(self, now_seconds: float, raised: str = "") -> Decision:
        self._failures += 1
        if self._failures > self._specification.attempts:
            return GiveUp(f"all {self._specification.attempts} restarts are used up")
        return RestartAfter(self._specification.delay_seconds)

    def running(self, now_seconds: float) -> None:
        pass


class _FailureRateMachine:
    def __init__(self, specification: FailureRate) -> None:
        self._specification = specification
        self._failures_seconds: deque[float] = deque()

    def failed(self, now_seconds: float, raised: str = "") -> Decision:
        specification = self._specification
        self._failures_seconds.append(now_seconds)
        while self._failures_seconds[0] <= now_seconds - specification.interval_seconds:
            self._failures_seconds.popleft()
        if len(self._failures_seconds) > specification.max_failures:
            return GiveUp(
                f"{len(self._failures_seconds)} failures within {specification.interval_seconds:g} s, "
                f"{specification.max_failures} are allowed"
            )
        return RestartAfter(specification.delay_seconds)

    def running(self, now_seconds: float) -> None:
        pass


class _ExponentialDelayMachine:
    def __init__(self, specification: ExponentialDelay, random: Random) -> None:
        self._specification = specification
        self._random = random
        self._failures = 0
        self._delay_seconds = specification.initial_seconds
        self._running_since_seconds: float | None = None

    def failed(self, now_seconds: float, raised: str = "") -> Decision:
        specification = self._specification
        since, self._running_since_seconds = self._running_since_seconds, None
        if since is not None and now_seconds - since >= specification.reset_after_seconds:
            self._failures = 0
            self._delay_seconds = specification.initial_seconds
        self._failures += 1
        if specification.attempts is not None and self._failures > specification.attempts:
            return GiveUp(f"all {specification.attempts} restarts are used up")
        spread = 1 + specification.jitter * (2 * self._random() - 1)
        delay_seconds = min(self._delay_seconds * spread, specification.max_seconds)
        self._delay_seconds = min(self._delay_seconds * specification.multiplier, specification.max_seconds)
        return RestartAfter(delay_seconds)

    def running(self, now_seconds: float) -> None:
        self._running_since_seconds = now_seconds


def _demand(holds: bool, fact: str) -> None:
    if not holds:
        raise ConfigurationError(f"this restart strategy can't work: {fact}")

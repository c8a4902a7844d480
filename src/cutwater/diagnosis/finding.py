"""What does the doctor say?"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from cutwater.status import JobStatus


class Severity(StrEnum):
    CRITICAL = "critical"
    """The job doesn't do its work, or would lose much of it in a failure."""
    WARNING = "warning"
    """The job is slower than it could be, or soon in trouble."""
    INFO = "info"
    """Worth knowing; nothing has to be done."""
    HEALTHY = "healthy"
    """Nothing was found."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence, the figure that it rests on, and what to do."""

    severity: Severity
    title: str
    evidence: str
    suggestion: str = ""
    task: str = ""
    """Where it shows most, e.g. "count[1]"; empty: it concerns the whole job."""


@dataclass(frozen=True, slots=True)
class Case:
    """A job now and, if someone has looked before, some seconds ago."""

    now: JobStatus
    earlier: JobStatus | None = None


Rule = Callable[[Case], Iterable[Finding]]


def share(part: float) -> str:
    """0.984 → "98 %"."""
    return f"{min(max(part, 0.0), 1.0):.0%}".replace("%", " %")


def seconds(amount: float) -> str:
    """As people say it, with two digits that matter."""
    if abs(amount) < 1:
        return f"{amount * 1000:.0f} ms"
    if abs(amount) < 120:
        return f"{amount:.1f} s" if abs(amount) < 10 else f"{amount:.0f} s"
    return f"{amount / 60:.0f} min" if abs(amount) < 7200 else f"{amount / 3600:.0f} h"

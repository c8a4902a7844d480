"""Does the job run at all, and does it keep running?"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from cutwater.diagnosis.finding import Case, Finding, Severity, seconds
from cutwater.protocol.lifecycle import JobState

#: The same failure so many times within an hour will come again.
SAME_CAUSE_TIMES = 3
WITHIN_MS = 3_600_000


def failed(case: Case) -> Iterator[Finding]:
    status = case.now
    if status.state is JobState.FAILED:
        said = status.failure
        yield Finding(
            Severity.CRITICAL,
            f"the job has failed: {said.fact}" if said is not None and said.fact else "the job has failed",
            (said.detail if said is not None else "") or f"attempt {status.attempt}, after {status.restarts} restarts",
            (said.hint if said is not None else "") or "`cutwater exceptions` shows why attempts failed",
        )


def waiting(case: Case) -> Iterator[Finding]:
    """For slots, or for an operator that takes long to open."""
    status = case.now
    if status.waiting_for and not status.state.terminal and status.state is not JobState.RUNNING:
        slots = status.state is JobState.WAITING_FOR_SLOTS
        yield Finding(
            Severity.CRITICAL if slots else Severity.WARNING,
            f"the job doesn't run: it waits for {'slots' if slots else 'an operator that opens'}",
            status.waiting_for,
            "free cores of the cluster, or start with a lower parallelism"
            if slots
            else "what it opens (a connection, a restored state) takes long; `cutwater logs` may say more",
        )


def restart_loop(case: Case) -> Iterator[Finding]:
    """The same failure again and again."""
    status = case.now
    since_ms = (status.as_of_ms or max((each.noticed_at_ms for each in status.recoveries), default=0)) - WITHIN_MS
    recent = [each for each in status.recoveries if each.noticed_at_ms >= since_ms]
    causes = Counter(_without_numbers(each.cause) for each in recent)
    for cause, times in causes.most_common(1):
        if times < SAME_CAUSE_TIMES:
            return
        same = [each for each in recent if _without_numbers(each.cause) == cause]
        first_line = same[-1].cause.partition("\n")[0]
        within_seconds = (same[-1].noticed_at_ms - same[0].noticed_at_ms) / 1000
        yield Finding(
            Severity.CRITICAL,
            f"the job fails again and again for the same reason: {first_line}",
            f"{times} of {len(recent)} restarts within {seconds(within_seconds)}",
            "`cutwater exceptions` shows the whole message; a restart doesn't cure it",
        )


def _without_numbers(cause: str) -> str:
    """Slots, records and addresses differ from one failure to the next."""
    return re.sub(r"\d+", "#", cause.partition("\n")[0])

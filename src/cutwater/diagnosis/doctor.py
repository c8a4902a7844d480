"""Is the job healthy, and if not, what is the matter? One table of rules; the worst finding comes first."""

from __future__ import annotations

from cutwater.diagnosis import attempts, event_time, snapshots, throughput
from cutwater.diagnosis.finding import Case, Finding, Rule, Severity, seconds, share
from cutwater.diagnosis.load import busy_of_slots, is_settled, knows_lag, lag_of
from cutwater.protocol.lifecycle import JobState
from cutwater.status import JobStatus

#: Of equal severity, the earlier one is told first.
RULES: tuple[Rule, ...] = (
    attempts.failed,
    attempts.waiting,
    attempts.restart_loop,
    snapshots.failing,
    throughput.skewed_records,
    throughput.held_up_by_its_end,
    throughput.bottleneck,
    throughput.source_is_the_limit,
    throughput.too_few_splits,
    throughput.falling_behind,
    event_time.watermark_stuck,
    snapshots.slow_barriers,
    snapshots.slow_driver,
    snapshots.long_freezes,
    snapshots.without_a_pause,
    throughput.skewed_state,
)
_ORDER = list(Severity)


def diagnose(now: JobStatus, earlier: JobStatus | None = None) -> list[Finding]:
    """At least one, the worst first. `earlier`: of some seconds ago, to see what grows."""
    case = Case(now, earlier)
    found = [finding for rule in RULES for finding in rule(case)]
    found.sort(key=lambda finding: _ORDER.index(finding.severity))
    return found or [_nothing_found(now)]


def needs_attention(findings: list[Finding]) -> bool:
    return any(finding.severity in (Severity.CRITICAL, Severity.WARNING) for finding in findings)


def _nothing_found(status: JobStatus) -> Finding:
    if status.state.terminal:
        return Finding(Severity.HEALTHY, f"the job has ended: {status.state}", _restarts(status))
    if status.state is not JobState.RUNNING:
        return Finding(Severity.HEALTHY, f"the job is {status.state.replace('_', ' ')}", _restarts(status))
    if not is_settled(status):
        return Finding(
            Severity.HEALTHY,
            "the job has just started: nothing is wrong so far",
            f"it has been running for {seconds(status.running_seconds)}",
            "ask again in a few seconds",
        )
    return Finding(Severity.HEALTHY, "the job is healthy: nothing holds it up", "; ".join(_signs(status)))


def _signs(status: JobStatus) -> list[str]:
    signs = [f"the busiest slot is busy {share(max(busy_of_slots(status).values(), default=0.0))} of the time"]
    if status.checkpoints:
        signs.append(f"the last checkpoint took {seconds(status.checkpoints[-1].duration_seconds)}")
    if knows_lag(status):
        signs.append(f"{lag_of(status):,} records wait to be read")
    return [*signs, _restarts(status)]


def _restarts(status: JobStatus) -> str:
    return f"{status.restarts} restart{'' if status.restarts == 1 else 's'}"

"""Whatever a status says, the doctor answers in sentences."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cutwater.diagnosis.doctor import diagnose, needs_attention
from cutwater.diagnosis.finding import Severity
from cutwater.protocol.lifecycle import JobState
from cutwater.status import (
    ChainStatus,
    CheckpointStatus,
    EdgeStatus,
    GraphStatus,
    JobStatus,
    OperatorActivity,
    OperatorStateStatus,
    OperatorStatus,
    RecoveryStatus,
    TaskStatus,
)

names = st.sampled_from(["a", "b", "map(f)", "async_map", ""])
shares = st.floats(0, 1) | st.floats(allow_nan=False, allow_infinity=False, width=32)
whole = st.integers(-(2**40), 2**40)
operators = st.builds(OperatorStatus, names, names, st.sampled_from(["source", "operator", "sink"]), names)
chains = st.builds(ChainStatus, names, names, st.integers(0, 4), st.lists(operators, max_size=3).map(tuple))
edges = st.builds(EdgeStatus, names, names, st.sampled_from(["hash", "forward"]))
tasks = st.builds(
    TaskStatus,
    task=st.sampled_from(["a[0]", "a[1]", "b[0]", "b[1]", "a", "", "["]),
    slot=names,
    records_in=whole,
    records_out=whole,
    busy_seconds=shares,
    idle_seconds=shares,
    backpressured_seconds=shares,
    alignment_seconds=shares,
    queued_elements=whole,
    watermark_ms=st.none() | whole | st.just(2**63 - 1),
    lag=st.dictionaries(names, whole, max_size=2),
    records_in_per_second=shares,
    records_out_per_second=shares,
    busy_share=shares,
    idle_share=shares,
    backpressured_share=shares,
    operators=st.lists(st.builds(OperatorActivity, names, whole, whole, shares, busy_share=shares), max_size=3).map(
        tuple
    ),
)
checkpoints = st.builds(
    CheckpointStatus,
    checkpoint=whole,
    kind=st.sampled_from(["checkpoint", "savepoint"]),
    attempt=st.integers(0, 1),
    outcome=st.sampled_from(["completed", "declined", ""]),
    duration_seconds=shares,
    triggered_at_ms=whole,
    start_delay_seconds_max=shares,
    sync_seconds_max=shares,
    async_seconds_max=shares,
    alignment_seconds_max=shares,
)
statuses = st.builds(
    JobStatus,
    job_id=names,
    name=names,
    state=st.just(JobState.RUNNING) | st.sampled_from(JobState),
    attempt=st.integers(0, 1),
    waiting_for=names,
    graph=st.builds(GraphStatus, st.lists(chains, max_size=3).map(tuple), st.lists(edges, max_size=3).map(tuple)),
    tasks=st.lists(tasks, max_size=5).map(tuple) | tasks.map(lambda task: (task,) * 3),
    checkpoints=st.lists(checkpoints, max_size=6).map(tuple),
    operator_states=st.lists(
        st.builds(OperatorStateStatus, names, whole, largest_group=st.none() | whole, largest_group_bytes=whole),
        max_size=2,
    ).map(tuple),
    recoveries=st.lists(st.builds(RecoveryStatus, whole, names, shares, noticed_at_ms=whole), max_size=5).map(tuple),
    restarts=whole,
    as_of_ms=whole,
    running_seconds=st.just(60.0) | shares,
)


@given(statuses, st.none() | statuses)
def test_no_status_makes_the_doctor_raise(now: JobStatus, earlier: JobStatus | None) -> None:
    findings = diagnose(now, earlier)
    assert findings
    assert all(finding.title and finding.evidence for finding in findings)
    order = [list(Severity).index(finding.severity) for finding in findings]
    assert order == sorted(order)
    assert not (needs_attention(findings) and Severity.HEALTHY in {finding.severity for finding in findings})

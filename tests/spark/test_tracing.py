"""A job whose slot is killed, as a receiver of OpenTelemetry sees it, and through HTTPS."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.serving.test_certificates import encrypted
from tests.unit.telemetry.receiver import receiving

import cutwater as cw
from cutwater.serving.client import find_job

from .ledger_job import kill, wait_for


@pytest.fixture
def spark() -> Iterator[Any]:
    from cutwater.deploy.session import embedded_session

    session = embedded_session(4)
    yield session
    session.stop()


def test_checkpoints_and_the_recovery_arrive_as_spans(
    spark: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with receiving(monkeypatch) as receiver:
        env = cw.Environment(
            spark=spark,
            parallelism=2,
            checkpoints=cw.Checkpoints(every="200ms"),
            restart=cw.restart.fixed_delay(attempts=50, delay="0s"),
            tracing=True,
            control=encrypted(tmp_path),
        )
        numbers = env.from_source(cw.sources.generator(int, splits=2, per_second=500), uid="numbers")
        numbers.key_by(lambda number: number % 16).count(uid="count").sink_to(cw.sinks.discard(), uid="end")
        job = env.submit("traced")
        wait_for(job, lambda status: status.checkpoints_completed > 2)
        kill(job.status().slots[0].pid)
        recovered = wait_for(job, lambda status: status.restarts > 0 and status.checkpoints_completed > 5)
        assert find_job("traced").status().restarts == recovered.restarts
        job.cancel()
        job.wait()
        spans = receiver.spans()
    checkpoints = {span.span_id for span in spans if span.name == "checkpoint"}
    recoveries = {span.span_id for span in spans if span.name == "recovery"}
    assert len(checkpoints) > 2
    assert {span.name for span in spans if span.parent_span_id in checkpoints} >= {"numbers[0]", "count[1]"}
    assert {span.name for span in spans if span.parent_span_id in recoveries} >= {"wait for slots", "first record"}

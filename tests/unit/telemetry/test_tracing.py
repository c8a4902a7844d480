"""Spans reach a receiver of OpenTelemetry."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from tests.unit.telemetry.receiver import Receiver, receiving
from tests.unit.telemetry.statuses import NOW_MS, full_status

from cutwater.errors import ConfigurationError
from cutwater.status import CheckpointDetails, TaskCheckpointStatus
from cutwater.telemetry.tracing import Tracing

pytestmark = pytest.mark.threads


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    with receiving(monkeypatch) as made:
        yield made


def details(number: int) -> CheckpointDetails:
    return CheckpointDetails(
        full_status().checkpoints[0], (TaskCheckpointStatus("count[0]", 0.01, 0.0, 0.02, 0.03, 0.07),)
    )


def test_checkpoints_and_recoveries_arrive_as_trees_of_spans(receiver: Receiver) -> None:
    tracing = Tracing(details)
    tracing.update(full_status())
    tracing.close()
    spans = {span.name: span for span in receiver.spans()}
    checkpoint, task, write = spans["checkpoint"], spans["count[0]"], spans["write"]
    assert (checkpoint.parent_span_id, task.parent_span_id, write.parent_span_id) == (
        b"",
        checkpoint.span_id,
        task.span_id,
    )
    assert {span.trace_id for span in (checkpoint, task, write)} == {checkpoint.trace_id}
    assert checkpoint.start_time_unix_nano == (NOW_MS - 1_000) * 1_000_000
    assert checkpoint.end_time_unix_nano - checkpoint.start_time_unix_nano == 20_000_000
    resource = {one.key: one.value.string_value for one in receiver.requests[0].resource_spans[0].resource.attributes}
    assert resource["service.name"] == "cutwater"


def test_the_usual_variables_name_the_service(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "our orders")
    tracing = Tracing(details)
    tracing.update(full_status())
    tracing.close()
    resource = {one.key: one.value.string_value for one in receiver.requests[0].resource_spans[0].resource.attributes}
    assert resource["service.name"] == "our orders"


def test_without_the_extra_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(ConfigurationError, match="tracing needs OpenTelemetry") as refused:
        Tracing(details)
    assert refused.value.hint == 'pip install "cutwater[otel]"'

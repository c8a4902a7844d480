"""How do spans leave the driver? On a thread of their own, by OpenTelemetry (extra `otel`), as its variables say."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from cutwater.errors import ConfigurationError
from cutwater.status import CheckpointDetails, JobStatus
from cutwater.telemetry.spans import Span, SpanMaker

log = logging.getLogger("cutwater.telemetry")

#: A job changes many times a second; what is over can wait so long.
PAUSE_SECONDS = 0.5
CLOSING_SECONDS = 5.0


class Tracing:
    """Listens to a job. `update` is quick, and for any one thread; nothing is sent on it."""

    def __init__(self, details: Callable[[int], CheckpointDetails | None]) -> None:
        """Raises `ConfigurationError` without the extra."""
        self._provider, self._is_ours = _provider()
        self._tracer = self._provider.get_tracer("cutwater")
        self._spans = SpanMaker(details)
        self._latest: JobStatus | None = None
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="cutwater-tracing", daemon=True)
        self._thread.start()

    def update(self, status: JobStatus) -> None:
        """The newest is enough: a status remembers what was over before it."""
        self._latest = status

    def close(self) -> None:
        """Sends what is left. Returns after a moment, also when no receiver answers."""
        self._closing.set()
        self._thread.join(CLOSING_SECONDS)

    def _run(self) -> None:
        try:
            while not self._closing.wait(PAUSE_SECONDS):
                self._tell()
            self._tell()
            if self._is_ours:
                self._provider.shutdown()
        except Exception:
            log.exception("traces are no longer sent; the job goes on")

    def _tell(self) -> None:
        status = self._latest
        for span in () if status is None else self._spans.take(status):
            self._send(span, None)

    def _send(self, span: Span, parent: Any) -> None:
        from opentelemetry import trace

        context = None if parent is None else trace.set_span_in_context(parent)
        begun = self._tracer.start_span(
            span.name, context, start_time=_nanoseconds(span.begun_ms), attributes=span.attributes
        )
        if span.problem:
            begun.set_status(trace.Status(trace.StatusCode.ERROR, span.problem))
        for part in span.parts:
            self._send(part, begun)
        begun.end(_nanoseconds(max(span.ended_ms, span.begun_ms)))


def _provider() -> tuple[Any, bool]:
    """The program's own, if it has set one up; else ours, which sends over OTLP/HTTP."""
    try:
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise ConfigurationError(
            "tracing needs OpenTelemetry", detail=str(error), hint='pip install "cutwater[otel]"'
        ) from None
    existing = trace.get_tracer_provider()
    if isinstance(existing, TracerProvider):
        return existing, False
    named = OTELResourceDetector().detect().attributes
    resource = Resource.create({} if SERVICE_NAME in named else {SERVICE_NAME: "cutwater"})
    made = TracerProvider(resource=resource, shutdown_on_exit=False)
    made.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return made, True


def _nanoseconds(milliseconds: float) -> int:
    return round(milliseconds * 1_000_000)

"""A real Prometheus reads the metrics of a job, with its token and not without."""

from __future__ import annotations

from urllib.parse import urlsplit

from servers.prometheus import Prometheus
from tests.unit.serving.stand_in import StandInJob
from tests.unit.telemetry.statuses import full_status

from cutwater.config import Control
from cutwater.serving.service import ControlService

from .waiting import until


def test_prometheus_scrapes_a_job(prometheus: Prometheus) -> None:
    job = StandInJob()
    job.now = full_status()
    service = ControlService(job, Control())
    try:
        prometheus.scrape(urlsplit(service.address).netloc, "this is not the token")
        until(lambda: [found["value"][1] for found in prometheus.query("up")] == ["0"])
        prometheus.scrape(urlsplit(service.address).netloc, service.tokens.change)
        until(lambda: [found["value"][1] for found in prometheus.query("up")] == ["1"])
        until(lambda: prometheus.query("cutwater_task_records_in_total"))
        (found,) = prometheus.query("cutwater_task_records_in_total")
        labels = {name: found["metric"][name] for name in ("job_id", "chain", "subtask")}
        assert (labels, found["value"][1]) == ({"job_id": "orders", "chain": "count", "subtask": "0"}, "10")
        (median,) = prometheus.query("histogram_quantile(0.5, cutwater_user_size_bucket)")
        assert 1 < float(median["value"][1]) < 10
    finally:
        service.close()

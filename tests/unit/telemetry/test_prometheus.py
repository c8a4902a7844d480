"""What Prometheus reads is what the status says, under names that it allows."""

from __future__ import annotations

import json
import re
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families
from tests.unit.telemetry.statuses import NOW_MS, full_status

from cutwater.protocol.lifecycle import JobState
from cutwater.status import JobStatus
from cutwater.telemetry.prometheus import exposition

DASHBOARD = Path(__file__).parents[3] / "docs" / "grafana-dashboard.json"


def samples(status: JobStatus) -> dict[tuple[str, ...], float]:
    """By name and the values of all labels but the job's."""
    order = ("name", "state", "outcome", "quantile", "chain", "subtask", "operator", "split", "le")
    return {
        (sample.name, *(sample.labels[label] for label in order if label in sample.labels)): sample.value
        for family in text_string_to_metric_families(exposition(status).decode())
        for sample in family.samples
    }


def test_a_status_becomes_samples() -> None:
    found = samples(full_status())
    task, operator = ("count", "0"), ("count", "0", "count")
    expected = {
        ("cutwater_job_info", "Orders"): 1,
        ("cutwater_job_state", "running"): 1,
        ("cutwater_job_state", "failed"): 0,
        ("cutwater_job_attempt",): 2,
        ("cutwater_job_restarts_total",): 1,
        ("cutwater_job_warnings_total",): 2,
        ("cutwater_job_last_recovery_seconds",): 0.7,
        ("cutwater_checkpoints_total", "completed"): 4,
        ("cutwater_checkpoints_total", "failed"): 1,
        ("cutwater_checkpoint_last_id",): 4,
        ("cutwater_checkpoint_last_timestamp_seconds",): (NOW_MS - 1_000) / 1000,
        ("cutwater_checkpoint_last_duration_seconds",): 0.02,
        ("cutwater_checkpoint_last_size_bytes",): 1_000,
        ("cutwater_checkpoint_last_alignment_seconds",): 0.004,
        ("cutwater_latency_seconds", "0.99"): 0.03,
        ("cutwater_task_records_in_total", *task): 10,
        ("cutwater_task_backpressured_seconds_total", *task): 3.0,
        ("cutwater_task_dead_letters_total", *task): 4,
        ("cutwater_task_queued_elements", *task): 5,
        ("cutwater_task_watermark_lag_seconds", *task): 2.0,
        ("cutwater_source_lag_records", *task, "orders/0"): 30,
        ("cutwater_operator_busy_seconds_total", *operator): 0.5,
        ("cutwater_operator_state_bytes", "count"): 900,
        ("cutwater_operator_largest_key_group_bytes", "count"): 500,
    }
    assert {key: found.get(key) for key in expected} == expected


def test_the_job_s_own_metrics_have_names_that_prometheus_allows_and_no_two_the_same() -> None:
    operator = ("count", "0", "count")
    found = {key: value for key, value in samples(full_status()).items() if key[0].startswith("cutwater_user_")}
    assert found == {
        ("cutwater_user_orders_seen_total", *operator): 7,
        ("cutwater_user_orders_seen_2", *operator): 2,
        ("cutwater_user_paid_total", *operator): 3,
        ("cutwater_user_size_bucket", *operator, "1.0"): 1,
        ("cutwater_user_size_bucket", *operator, "10.0"): 3,
        ("cutwater_user_size_bucket", *operator, "+Inf"): 4,
        ("cutwater_user_size_count", *operator): 4,
        ("cutwater_user_size_sum", *operator): 12.5,
    }


def test_a_job_that_has_not_begun_has_samples_too() -> None:
    assert samples(JobStatus("orders", "Orders", JobState.CREATED, 0))["cutwater_job_state", "created"] == 1


def test_every_metric_of_the_dashboard_exists() -> None:
    known = {key[0] for key in samples(full_status())}
    text = json.dumps([panel.get("targets", []) for panel in json.loads(DASHBOARD.read_text())["panels"]])
    queried = set(re.findall(r"cutwater_\w+", text))
    assert queried
    assert queried - known == set()

from __future__ import annotations

import pytest

from cutwater.operators.metrics import OperatorMetrics, SlotMetrics, TaskMetrics
from cutwater.operators.user_metrics import UserMetrics
from cutwater.protocol.ids import SlotId
from cutwater.runtime.recent_activity import WINDOW_SECONDS, RecentActivity
from cutwater.status import MetricStatus, TaskStatus

SLOT = SlotId("s1")


def told(records: int, *, busy: float = 0.0, backpressured: float = 0.0) -> SlotMetrics:
    operator = OperatorMetrics("map", records_in=records, records_out=2 * records, busy_seconds=busy)
    task = TaskMetrics(
        "map[0]", records, 2 * records, busy_seconds=busy, backpressured_seconds=backpressured, operators=[operator]
    )
    return SlotMetrics(1, [task])


def one(tasks: tuple[TaskStatus, ...]) -> TaskStatus:
    (task,) = tasks
    return task


def test_a_first_report_has_no_rates_yet() -> None:
    activity = RecentActivity(SLOT, told(5), 10.0)
    task = one(activity.tasks(told(5), 10.0))
    assert (task.records_in, task.records_in_per_second, task.busy_share, task.idle_share) == (5, 0.0, 0.0, 0.0)


def test_rates_and_shares_are_those_between_two_reports() -> None:
    activity = RecentActivity(SLOT, told(0), 10.0)
    task = one(activity.tasks(told(100, busy=0.25, backpressured=0.5), 11.0))
    assert (task.records_in_per_second, task.records_out_per_second) == (100.0, 200.0)
    assert (task.busy_share, task.backpressured_share, task.idle_share) == (0.25, 0.5, 0.25)
    operator = task.operators[0]
    assert (operator.records_in_per_second, operator.busy_share) == (100.0, 0.25)


def test_rates_follow_a_change_within_two_windows() -> None:
    activity = RecentActivity(SLOT, told(0), 0.0)
    seconds = records = 0.0
    while seconds < 10 * WINDOW_SECONDS:  # a thousand a second, then none
        seconds += 0.25
        records += 250
        task = one(activity.tasks(told(int(records)), seconds))
    assert task.records_in_per_second == pytest.approx(1000.0)
    for _ in range(int(2 * WINDOW_SECONDS / 0.25)):
        seconds += 0.25
        task = one(activity.tasks(told(int(records)), seconds))
    assert task.records_in_per_second == 0.0


def test_a_task_that_the_first_report_lacked_starts_from_its_own_first_count() -> None:
    activity = RecentActivity(SLOT, SlotMetrics(1, []), 0.0)
    assert one(activity.tasks(told(7), 1.0)).records_in_per_second == 0.0


def test_metrics_of_the_users_arrive_as_they_are() -> None:
    users = UserMetrics("map")
    users.counter("bad").inc(3)
    users.histogram("seconds", [1.0, 2.0]).observe(1.5)
    metrics = told(1)
    metrics.tasks[0].operators[0].users = users.told()
    found = one(RecentActivity(SLOT, metrics, 0.0).tasks(metrics, 0.0)).operators[0].metrics
    assert found == (
        MetricStatus("bad", "counter", 3.0),
        MetricStatus("seconds", "histogram", 1.5, 1, (1.0, 2.0), (0, 1, 0)),
    )

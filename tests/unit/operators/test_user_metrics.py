"""What may a user's function count, and what is told of it?"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from cutwater.errors import UserError
from cutwater.graph.keys import KeySelector
from cutwater.operators.async_map import AsyncMapOperator, CallRules
from cutwater.operators.connect import BroadcastConnectOperator
from cutwater.operators.process import KeyedProcessOperator, ProcessOperator
from cutwater.operators.user_metrics import METRICS_MAX, UserMetric, UserMetrics


@pytest.fixture
def metrics() -> UserMetrics:
    return UserMetrics("parse")


def test_a_counter_grows(metrics: UserMetrics) -> None:
    bad = metrics.counter("bad")
    bad.inc()
    bad.inc(2.5)
    assert metrics.told() == [UserMetric("bad", "counter", 3.5)]


def test_a_gauge_is_what_it_was_set_to_last(metrics: UserMetrics) -> None:
    metrics.gauge("depth").set(3)
    metrics.gauge("depth").set(-1)
    assert metrics.told() == [UserMetric("depth", "gauge", -1.0)]


def test_a_function_is_asked_for_a_gauge_each_time(metrics: UserMetrics) -> None:
    waiting: list[int] = []
    metrics.gauge("waiting", lambda: len(waiting))
    assert metrics.told()[0].value == 0
    waiting.append(1)
    assert metrics.told()[0].value == 1


def test_a_histogram_counts_by_bucket_and_its_upper_end_belongs_to_it(metrics: UserMetrics) -> None:
    sizes = metrics.histogram("size", [1, 10])
    for size in (0, 1, 2, 10, 11):
        sizes.observe(size)
    assert metrics.told() == [UserMetric("size", "histogram", 24.0, 5, (1.0, 10.0), (2, 2, 1))]


def test_what_is_told_survives_the_wire(metrics: UserMetrics) -> None:
    metrics.histogram("size", [1]).observe(2)
    metrics.counter("bad").inc()
    encoded = msgspec.msgpack.encode(metrics.told())
    assert msgspec.msgpack.decode(encoded, type=list[UserMetric]) == metrics.told()


def test_a_name_stands_for_one_metric(metrics: UserMetrics) -> None:
    assert metrics.counter("bad") is metrics.counter("bad")
    assert metrics.histogram("size", [1]) is metrics.histogram("size")


@pytest.mark.parametrize("name", ["", "2nd", "a b", "a-b", "ä", "a\n", "x" * 101, None, 7])
def test_a_name_that_no_metrics_system_takes_is_refused(metrics: UserMetrics, name: Any) -> None:
    with pytest.raises(UserError, match="name can't be used"):
        metrics.counter(name)


def test_a_name_has_one_kind(metrics: UserMetrics) -> None:
    metrics.counter("bad")
    with pytest.raises(UserError, match='metric "bad" of operator "parse" is a counter, not a gauge'):
        metrics.gauge("bad")


@pytest.mark.parametrize("buckets", [[], [1, 1], [2, 1], [float("inf")], ["a"], range(101), 5])
def test_buckets_that_make_no_sense_are_refused(metrics: UserMetrics, buckets: Any) -> None:
    with pytest.raises(UserError, match="ascending"):
        metrics.histogram("size", buckets)


def test_other_buckets_for_the_same_histogram_are_refused(metrics: UserMetrics) -> None:
    metrics.histogram("size", [1, 2])
    with pytest.raises(UserError, match="other buckets"):
        metrics.histogram("size", [1, 3])


def test_names_made_of_data_come_to_an_end(metrics: UserMetrics) -> None:
    for number in range(METRICS_MAX):
        metrics.counter(f"user_{number}")
    with pytest.raises(UserError, match="more than 100 metrics"):
        metrics.counter("user_100")


@pytest.mark.parametrize(
    "use",
    [
        lambda metrics: metrics.counter("bad").inc(-1),
        lambda metrics: metrics.counter("bad").inc(float("nan")),
        lambda metrics: metrics.histogram("size").observe(float("nan")),
        lambda metrics: metrics.gauge("depth", 5),
    ],
)
def test_a_value_that_makes_no_sense_is_refused(metrics: UserMetrics, use: Callable[[UserMetrics], None]) -> None:
    with pytest.raises(UserError):
        use(metrics)


def test_a_gauge_whose_function_fails_is_left_out_and_warned_about_once(
    metrics: UserMetrics, caplog: pytest.LogCaptureFixture
) -> None:
    metrics.gauge("ratio", lambda: 1 / 0)
    metrics.counter("bad").inc()
    with caplog.at_level(logging.WARNING):
        assert [metric.name for metric in metrics.told() + metrics.told()] == ["bad", "bad"]
    assert [record.message for record in caplog.records] == ['gauge "ratio" of operator "parse" fails and is left out']


def test_what_is_no_finite_number_is_left_out(metrics: UserMetrics) -> None:
    metrics.gauge("ratio").set(float("nan"))
    assert metrics.told() == []


class CountsAll:
    def open(self, context: Any) -> None:
        self.seen = context.metrics.counter("seen")

    def process(self, record: Any, context: Any) -> None:
        self.seen.inc()

    def process_broadcast(self, record: Any, context: Any) -> None:
        context.metrics.counter("rules").inc()


@pytest.mark.parametrize(
    "operator", [ProcessOperator(CountsAll()), KeyedProcessOperator(KeySelector(lambda record: record), CountsAll())]
)
def test_a_process_function_counts(task: Any, operator: Any) -> None:
    chain = task(operator)
    chain.feed("a", "b")
    assert operator.context.user_metrics.told() == [UserMetric("seen", "counter", 2.0)]


def test_both_sides_of_a_broadcast_count_into_the_same_metrics(task: Any) -> None:
    operator = BroadcastConnectOperator(CountsAll())
    chain = task(operator)
    chain.feed("a")
    chain.feed("rule", port=1)
    told = operator.context.user_metrics.told()
    assert told == [UserMetric("seen", "counter", 1.0), UserMetric("rules", "counter", 1.0)]


class CountsCalls:
    async def open(self, context: Any) -> None:
        self.calls = context.metrics.counter("calls")

    async def process(self, record: Any) -> Any:
        self.calls.inc()
        return record


def test_a_coroutine_counts(task: Any) -> None:
    rules = CallRules(capacity=10, timeout_seconds=None, ordered=True, retry=None, on_error="fail")
    operator = AsyncMapOperator(CountsCalls(), rules)
    chain = task(operator)
    operator.on_start()
    chain.loop.finish()  # opens it
    chain.feed(1, 2)
    chain.loop.finish()
    operator.close()
    assert operator.context.user_metrics.told() == [UserMetric("calls", "counter", 2.0)]

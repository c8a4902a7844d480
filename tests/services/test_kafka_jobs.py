"""What does Kafka do to whole jobs, and jobs to Kafka, that the kit of connectors does not show?"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from servers.kafka import Kafka
from tests.services.endpoints import wait_until
from tests.services.kafka_topics import committed, end_is_stable, fresh_topic, produce, values

import cutwater as cw
from cutwater.testing.connectors.controls import Controls
from cutwater.testing.connectors.driver import DriverProcess
from cutwater.testing.connectors.jobs import JobUnderTest

RECORDS = 100_000
DEADLINE_SECONDS = 180.0


@pytest.mark.trials
@pytest.mark.timeout(600)
def test_nothing_is_lost_when_the_job_is_down_for_longer_than_a_transaction_may_last(
    kafka: Kafka, spark: Any, tmp_path: Path
) -> None:
    topic = fresh_topic(kafka, partitions=3)
    job = JobUnderTest(
        source=cw.sources.generator(int, count=RECORDS, per_second=10_000),
        shape=int,
        sink=cw.sinks.kafka(kafka.address, topic, value="json", properties={"transaction.timeout.ms": 2000}),
        records=RECORDS,
        controls=Controls(str(tmp_path / "controls")),
        storage=str(tmp_path / "snapshots"),
    )
    job.controls.release()
    kill_when(lambda: not end_is_stable(kafka, topic), DriverProcess(job, tmp_path))
    wait_until(lambda: end_is_stable(kafka, topic))  # the broker has waited for long enough, and aborted it
    job.submit(spark, restore="latest").wait("120s")
    wait_until(lambda: end_is_stable(kafka, topic))
    assert Counter(values(committed(kafka, topic))) == Counter(b"%d" % number for number in range(RECORDS))


def kill_when(holds: Callable[[], bool], driver: DriverProcess) -> None:
    """`kill -9` of the driver and its slots, at a moment when it holds: they stand still while the test looks."""
    try:
        while True:
            wait_until(lambda: holds() or driver.ended is not None, DEADLINE_SECONDS)
            assert driver.ended is None, driver.ended
            signal_all(driver.family, signal.SIGSTOP)
            if holds():
                return
            signal_all(driver.family, signal.SIGCONT)
    finally:
        driver.clean_up()


def signal_all(pids: list[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


@pytest.mark.timeout(300)
def test_a_job_reads_partitions_that_appear_while_it_runs(kafka: Kafka, spark: Any, tmp_path: Path) -> None:
    from confluent_kafka.admin import AdminClient, NewPartitions

    before, after = fresh_topic(kafka), fresh_topic(kafka)
    produce(kafka, before, [b"old"])
    env = cw.Environment(
        spark=spark,
        parallelism=2,
        checkpoints=cw.Checkpoints(every="500ms", storage=str(tmp_path / "snapshots")),
    )
    source = cw.sources.kafka(kafka.address, before, discovery="500ms")
    env.from_source(source, uid="in").sink_to(cw.sinks.kafka(kafka.address, after), uid="out")
    job = env.submit("partitions", require="exactly_once")
    try:
        when_all_are_there(kafka, after, 1)
        admin = AdminClient({"bootstrap.servers": kafka.address})
        admin.create_partitions([NewPartitions(before, 2)])[before].result(30)
        produce(kafka, before, [b"new"], partition=1)
        found = when_all_are_there(kafka, after, 2)
    finally:
        job.cancel()
    assert found == Counter([b"old", b"new"])


def when_all_are_there(kafka: Kafka, topic: str, count: int) -> Counter[bytes]:
    """More than these must not come: one more checkpoint would show them."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while len(found := values(committed(kafka, topic))) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} after {DEADLINE_SECONDS:.0f} s"
        time.sleep(0.5)
    time.sleep(2)
    return Counter(values(committed(kafka, topic)))

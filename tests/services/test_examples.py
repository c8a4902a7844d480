"""The examples that talk to servers: plain, killed and rescaled on real Spark, always the one golden output."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from servers.kafka import Kafka
from servers.postgres import Postgres
from tests.pipelines.output_files import json_rows

import cutwater as cw

# As `cutwater run examples/x.py` does: an example finds its neighbours.
sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

DEADLINE_SECONDS = 120.0
ORDERS = 800
CHANGES = 400
NOON_MS = 1_748_779_200_000


def nothing(job: cw.JobHandle) -> None:
    pass


def slots_killed(job: cw.JobHandle) -> None:
    """`kill -9`, twice; the second time the job may still be recovering."""
    for restarts in range(2):
        wait_until(lambda restarts=restarts: job.status().restarts >= restarts and pids(job))
        os.kill(pids(job)[0], signal.SIGKILL)
    wait_until(lambda: job.status().restarts >= 2)


def rescaled(job: cw.JobHandle) -> None:
    job.rescale(3, timeout="60s")
    job.rescale(1, timeout="60s")


happenings = pytest.mark.parametrize("happens", [nothing, slots_killed, rescaled], ids=lambda one: one.__name__)


@happenings
def test_the_turnover_of_each_minute_is_in_the_table_once(
    kafka: Kafka, postgres: Postgres, spark: Any, tmp_path: Path, happens: Callable[[cw.JobHandle], None]
) -> None:
    data, tools, example = modules("data", "real_servers", "kafka_to_postgres")
    topic, table = tools.new_name("orders"), tools.new_name("turnover")
    tools.create_topic(kafka.address, topic)
    tools.query(postgres.url, f"CREATE TABLE {table} ({example.COLUMNS})")
    orders = data.shop_orders(orders=ORDERS)
    golden = turnover(orders)
    rows = f"SELECT shop, extract(epoch FROM window_start) * 1000, orders, cents FROM {table}"

    def found() -> Counter[tuple[Any, ...]]:
        return Counter((shop, int(start_ms), *rest) for shop, start_ms, *rest in tools.query(postgres.url, rows))

    env = environment(spark, tmp_path)
    example.build(env, kafka=kafka.address, topic=topic, postgres=postgres.url, table=table)
    job = env.submit("turnover", require="exactly_once")
    tools.send(kafka.address, topic, orders[: ORDERS // 2])
    wait_until(found, job)
    happens(job)
    tools.send(kafka.address, topic, orders[ORDERS // 2 :])
    tools.send(kafka.address, topic, [{**orders[0], "time_ms": NOON_MS + 3_600_000}] * tools.PARTITIONS)
    wait_until(lambda: found().total() >= golden.total(), job)
    end(job)
    assert found() == golden
    assert tools.query(postgres.url, "SELECT gid FROM pg_prepared_xacts") == []


def turnover(orders: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    minutes: dict[tuple[str, int], list[int]] = {}
    for order in orders:
        minutes.setdefault((order["shop"], order["time_ms"] // 60_000 * 60_000), []).append(order["cents"])
    return Counter((shop, start_ms, len(cents), sum(cents)) for (shop, start_ms), cents in minutes.items())


@happenings
def test_each_change_of_the_table_is_in_the_history_once(
    postgres: Postgres, spark: Any, tmp_path: Path, happens: Callable[[cw.JobHandle], None]
) -> None:
    data, tools, example = modules("data", "real_servers", "changes_to_files")
    table, slot, output = tools.new_name("stock"), tools.new_name("slot"), tmp_path / "output"
    example.create_table(postgres.url, table=table, slot=slot)
    changes = data.stock_changes(changes=CHANGES)
    env = environment(spark, tmp_path)
    example.build(env, postgres=postgres.url, table=table, slot=slot, output_folder=output)
    job = env.submit("history", require="exactly_once")
    example.apply(postgres.url, table, islice(changes, CHANGES // 2))
    wait_until(lambda: json_rows(output), job)
    happens(job)
    example.apply(postgres.url, table, changes)
    wait_until(lambda: len(json_rows(output)) >= CHANGES, job)
    end(job)
    example.drop_slot(postgres.url, slot)
    found = [[row[column] for column in ("item", "version", "change", "pieces", "moved")] for row in json_rows(output)]
    assert sorted(found) == sorted(history(data.stock_changes(changes=CHANGES)))


def history(changes: Iterator[tuple[str, str, int]]) -> Iterator[list[Any]]:
    versions, pieces_before = Counter[str](), Counter[str]()
    for change, item, pieces in changes:
        versions[item] += 1
        yield [item, versions[item], change, pieces, pieces - pieces_before[item]]
        pieces_before[item] = pieces


def environment(spark: Any, folder: Path) -> cw.Environment:
    return cw.Environment(
        spark=spark,
        parallelism=2,
        checkpoints=cw.Checkpoints(every="200ms", storage=str(folder / "checkpoints"), tolerable_failures=50),
        restart=cw.restart.fixed_delay(attempts=5, delay="0s"),
        slot_timeout="2min",  # a busy machine takes its time to start them
    )


def modules(*names: str) -> list[Any]:
    return [importlib.import_module(name) for name in names]


def pids(job: cw.JobHandle) -> list[int]:
    return [slot.pid for slot in job.status().slots if slot.tasks]


def end(job: cw.JobHandle) -> None:
    """What came too often would be visible now, too."""
    job.stop()
    job.wait("60s")


def wait_until(holds: Callable[[], Any], job: cw.JobHandle | None = None) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not holds():
        if job is not None and job.status().state.terminal:
            job.wait()
        assert time.monotonic() < deadline, f"did not happen in {DEADLINE_SECONDS:.0f} s"
        time.sleep(0.05)

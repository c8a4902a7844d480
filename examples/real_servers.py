"""Which servers does an example talk to: yours, or real ones that it starts for itself?

    with servers("kafka", "postgres") as (kafka, postgres):
        ...

The command line decides: `--kafka host:9092` and `--postgres postgresql://…` name yours. What isn't named is started on
a free port of this machine, and is gone with its data when the example ends.
"""

from __future__ import annotations

import argparse
import json
import secrets
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from cutwater.errors import OperationsError

PARTITIONS = 4


@contextmanager
def servers(*names: str) -> Iterator[list[str]]:
    """The addresses of these servers, in this order."""
    parser = argparse.ArgumentParser()
    for name in names:
        parser.add_argument(f"--{name}", metavar="ADDRESS", help="of your own; left out, one is started")
    given = vars(parser.parse_args())
    with ExitStack() as started:
        yield [given[name] or _start(name, started) for name in names]


def _start(name: str, started: ExitStack) -> str:
    # The package is beside this folder: a tool for developers, not part of the wheel.
    sys.path.append(str(Path(__file__).parents[1]))
    from servers.catalogue import SERVERS
    from servers.install import install_packages
    from servers.packages import NotInstallable

    try:
        install_packages(SERVERS[name].packages)
    except NotInstallable as problem:
        hint = f"use one of your own: --{name} ADDRESS"
        raise OperationsError(f"{name} can't be started here", detail=str(problem), hint=hint) from None
    server: Any = started.enter_context(SERVERS[name]())
    print(f"started {name}, until this program ends: {server.how_to_connect}")
    return str(server.address if name == "kafka" else server.url)


def new_name(purpose: str) -> str:
    """For a topic or table that nobody has."""
    return f"cutwater_{purpose}_{secrets.token_hex(3)}"


def create_topic(kafka: str, topic: str) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": kafka})
    admin.create_topics([NewTopic(topic, num_partitions=PARTITIONS)])[topic].result(30)


def send(kafka: str, topic: str, records: Iterable[Any]) -> None:
    """As JSON, to one partition after the other: each has its records in the order in which they are given."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": kafka, "linger.ms": 5})
    for number, record in enumerate(records):
        producer.produce(topic, json.dumps(record).encode(), partition=number % PARTITIONS)
    if producer.flush(60):
        raise OperationsError(f"Kafka at {kafka} did not take all records within a minute")


def query(postgres: str, statement: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The rows of a statement, if it has any; each is a transaction of its own."""
    import psycopg

    with psycopg.connect(postgres, autocommit=True) as connection:
        cursor = connection.execute(statement.encode(), values)
        return cursor.fetchall() if cursor.description else []

"""Which connectors are measured, and on which servers?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from servers.cassandra import Cassandra
from servers.kafka import Kafka
from servers.kinesis import Kinesis
from servers.mariadb import MariaDB
from servers.nats import Nats
from servers.postgres import Postgres
from servers.process import Server
from servers.rabbitmq import RabbitMQ
from servers.redis import Redis

from benchmarks.connectors import brokers, databases, files, kafka, streams
from benchmarks.connectors.cases import Case

#: On a busy machine.
READY_WITHIN_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Connector:
    #: From the running server, if there is one, and an empty folder.
    cases: Callable[[Any, Path], list[Case]]
    #: None: it needs none.
    server: type[Server] | None = None
    options: dict[str, Any] = field(default_factory=dict)

    def start(self) -> Server:
        """Not started yet: it is a context."""
        assert self.server is not None
        return patient(self.server(**self.options))


def patient(server: Server) -> Server:
    server.ready_within_seconds = READY_WITHIN_SECONDS  # type: ignore[misc]
    return server


CONNECTORS: dict[str, Connector] = {
    "files": Connector(lambda server, folder: files.cases(folder)),
    "kafka": Connector(lambda server, folder: kafka.cases(server.address), Kafka, {"optimised": True}),
    "postgres": Connector(lambda server, folder: databases.postgres_cases(server.url), Postgres),
    "mariadb": Connector(lambda server, folder: databases.mariadb_cases(server.how_to_connect), MariaDB),
    "redis": Connector(lambda server, folder: streams.redis_cases(server.how_to_connect), Redis),
    "nats": Connector(lambda server, folder: streams.nats_cases(server.url), Nats),
    "rabbitmq": Connector(lambda server, folder: brokers.rabbitmq_cases(server.url), RabbitMQ),
    "kinesis": Connector(lambda server, folder: brokers.kinesis_cases(server.endpoint, server.credentials), Kinesis),
    "cassandra": Connector(lambda server, folder: databases.cassandra_cases(server.port), Cassandra),
}

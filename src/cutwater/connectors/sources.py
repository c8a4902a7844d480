"""The sources that come with Cutwater: `cw.sources.files(…)`, …"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cutwater.connectors.catalogue import named
from cutwater.connectors.collection import collection
from cutwater.connectors.file_source import csv, files
from cutwater.connectors.generator import generator
from cutwater.connectors.socket_source import socket

if TYPE_CHECKING:  # imported when they are used
    from cutwater.connectors.http.source import http_stream
    from cutwater.connectors.kafka.source import kafka
    from cutwater.connectors.kinesis.source import kinesis
    from cutwater.connectors.nats.source import nats
    from cutwater.connectors.postgres.changes import postgres_changes
    from cutwater.connectors.postgres.source import postgres
    from cutwater.connectors.rabbitmq.queue_source import rabbitmq
    from cutwater.connectors.rabbitmq.stream_source import rabbitmq_stream
    from cutwater.connectors.redis.source import redis_stream
    from cutwater.connectors.spark.source import spark_data_source

__all__ = [
    "collection",
    "generator",
    "files",
    "csv",
    "socket",
    "http_stream",
    "kafka",
    "kinesis",
    "nats",
    "postgres",
    "postgres_changes",
    "rabbitmq",
    "rabbitmq_stream",
    "redis_stream",
    "spark_data_source",
]


def __getattr__(name: str) -> Any:
    return named("source", name)

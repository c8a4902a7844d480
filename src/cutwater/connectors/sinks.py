"""The sinks that come with Cutwater: `cw.sinks.parquet(…)`, …"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cutwater.connectors.catalogue import named
from cutwater.connectors.collect import collect
from cutwater.connectors.discard import discard
from cutwater.connectors.file_sink import avro, csv, files, json_lines, parquet, text
from cutwater.connectors.function import function
from cutwater.connectors.socket_sink import socket
from cutwater.connectors.stdout import stdout

if TYPE_CHECKING:  # imported when they are used
    from cutwater.connectors.cassandra.sink import cassandra
    from cutwater.connectors.elasticsearch.sink import elasticsearch
    from cutwater.connectors.kafka.sink import kafka
    from cutwater.connectors.kinesis.sink import kinesis
    from cutwater.connectors.mariadb.sink import mariadb
    from cutwater.connectors.nats.sink import nats
    from cutwater.connectors.postgres.sink import postgres
    from cutwater.connectors.rabbitmq.sink import rabbitmq
    from cutwater.connectors.redis.sink import redis
    from cutwater.connectors.redis.stream_sink import redis_stream
    from cutwater.connectors.spark.epochs import for_each_epoch
    from cutwater.connectors.spark.sink import spark_data_source

__all__ = [
    "files",
    "text",
    "json_lines",
    "csv",
    "parquet",
    "avro",
    "stdout",
    "socket",
    "function",
    "collect",
    "discard",
    "cassandra",
    "elasticsearch",
    "for_each_epoch",
    "kafka",
    "kinesis",
    "mariadb",
    "nats",
    "postgres",
    "rabbitmq",
    "redis",
    "redis_stream",
    "spark_data_source",
]


def __getattr__(name: str) -> Any:
    return named("sink", name)

"""Which connectors are there, what does each give at best, and what must be installed for it?

Those with a client of their own are imported when they are used; `cutwater connectors` lists all.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, Literal

_HERE: Final = "cutwater.connectors."


@dataclass(frozen=True, slots=True)
class Connector:
    """One name of `cw.sources` or `cw.sinks`."""

    name: str
    end: Literal["source", "sink"]
    #: Below this folder.
    module: str
    #: From end to end at best, with exactly-once checkpoints, and by which means.
    guarantee: str
    #: The extra that brings its client, and the client's module; empty: it needs none.
    extra: str = ""
    client: str = ""

    @property
    def is_installed(self) -> bool:
        return not self.client or find_spec(self.client) is not None

    def load(self) -> Any:
        """The function that makes it."""
        return getattr(import_module(_HERE + self.module), self.name)


def _source(name: str, module: str, guarantee: str, extra: str = "", client: str = "") -> Connector:
    return Connector(name, "source", module, guarantee, extra, client)


def _sink(name: str, module: str, guarantee: str, extra: str = "", client: str = "") -> Connector:
    return Connector(name, "sink", module, guarantee, extra, client)


CONNECTORS: Final = (
    _source("collection", "collection", "exactly once: index"),
    _source("generator", "generator", "exactly once: index"),
    _source("files", "file_source", "exactly once: offset or row group"),
    _source("csv", "file_source", "exactly once: row"),
    _source("socket", "socket_source", "none: can't be read again"),
    _source("http_stream", "http.source", "none; with ids, exactly once: Last-Event-ID"),
    _source("kafka", "kafka.source", "exactly once: offset", "kafka", "confluent_kafka"),
    _source("kinesis", "kinesis.source", "exactly once: sequence number", "kinesis", "boto3"),
    _source("nats", "nats.source", "exactly once: sequence", "nats", "nats"),
    _source("postgres", "postgres.source", "exactly once: ordered key", "postgres", "psycopg"),
    _source("postgres_changes", "postgres.changes", "exactly once: log position", "postgres", "psycopg"),
    _source("rabbitmq", "rabbitmq.queue_source", "at least once; with ids, exactly once", "rabbitmq", "pika"),
    _source("rabbitmq_stream", "rabbitmq.stream_source", "exactly once: offset", "rabbitmq", "pika"),
    _source("redis_stream", "redis.source", "exactly once: entry id", "redis", "redis"),
    _source("spark_data_source", "spark.source", "exactly once: its offsets"),
    _sink("files", "file_sink", "exactly once: pending, then committed"),
    _sink("text", "file_sink", "exactly once: pending, then committed"),
    _sink("json_lines", "file_sink", "exactly once: pending, then committed"),
    _sink("csv", "file_sink", "exactly once: pending, then committed"),
    _sink("parquet", "file_sink", "exactly once: pending, then committed"),
    _sink("avro", "file_sink", "exactly once: pending, then committed", "avro", "fastavro"),
    _sink("stdout", "stdout", "at least once"),
    _sink("socket", "socket_sink", "at least once"),
    _sink("function", "function", "at least once; exactly once if idempotent"),
    _sink("collect", "collect", "exactly once"),
    _sink("discard", "discard", "exactly once"),
    _sink("cassandra", "cassandra.sink", "exactly once: upserts", "cassandra", "cassandra"),
    _sink("elasticsearch", "elasticsearch.sink", "exactly once: upserts, or write-ahead with ids"),
    _sink("kafka", "kafka.sink", "exactly once: write-ahead, in transactions", "kafka", "confluent_kafka"),
    _sink("kinesis", "kinesis.sink", "at least once", "kinesis", "boto3"),
    _sink("mariadb", "mariadb.sink", "exactly once: XA transactions, or upserts", "mariadb", "pymysql"),
    _sink("nats", "nats.sink", "exactly once: write-ahead, or message ids", "nats", "nats"),
    _sink("postgres", "postgres.sink", "exactly once: prepared transactions, or upserts", "postgres", "psycopg"),
    _sink("rabbitmq", "rabbitmq.sink", "at least once; exactly once for consumers that drop ids", "rabbitmq", "pika"),
    _sink("redis", "redis.sink", "exactly once: upserts", "redis", "redis"),
    _sink("redis_stream", "redis.stream_sink", "exactly once: write-ahead, in one script", "redis", "redis"),
    _sink("for_each_epoch", "spark.epochs", "exactly once if idempotent by epoch"),
    _sink("spark_data_source", "spark.sink", "exactly once: its commit messages"),
)


def named(end: Literal["source", "sink"], name: str) -> Any:
    """The function that makes it; AttributeError: there is none of that name."""
    for connector in CONNECTORS:
        if (connector.end, connector.name) == (end, name):
            return connector.load()
    known = ", ".join(sorted(connector.name for connector in CONNECTORS if connector.end == end))
    raise AttributeError(f"there is no {end} {name!r}; there are {known}")

"""Counts messages of a topic per key into another topic, exactly once, with Flink SQL and its Kafka connector.

The count changes with every message, which only the connector `upsert-kafka` takes. `per second` is Flink's mini-batch
mode, as in `flink_sql`.
"""

from __future__ import annotations

import gc

from pyflink.table import EnvironmentSettings, TableEnvironment

from benchmarks.connectors.counting_contract import PER_SECOND, Count, count_from_arguments
from benchmarks.contract import Settings
from benchmarks.peers.flink import configuration, free_port
from benchmarks.peers.flink_sql import MINI_BATCHES


def main(given: Count) -> None:
    gc.disable()  # a collection during planning calls Java from another thread, see JobWatch
    settings = Settings(
        "kafka", "", 0, given.scratch, "hashmap", given.checkpoint_seconds, parallelism=given.parallelism
    )
    more = {"pipeline.jars": ";".join(f"file://{jar}" for jar in given.jars)}
    more |= MINI_BATCHES if given.variant == PER_SECOND else {}
    options = configuration(settings, rest_port=free_port(), more=more)
    tables = TableEnvironment.create(
        EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(options).build()
    )
    tables.execute_sql(f"""
        CREATE TABLE messages (`key` STRING) WITH (
            'connector' = 'kafka', 'topic' = '{given.source}', 'properties.bootstrap.servers' = '{given.servers}',
            'properties.group.id' = 'flink', 'properties.isolation.level' = 'read_committed',
            'scan.startup.mode' = 'earliest-offset', 'format' = 'json'
        )
    """)
    tables.execute_sql(f"""
        CREATE TABLE counts (`key` STRING, n BIGINT, PRIMARY KEY (`key`) NOT ENFORCED) WITH (
            'connector' = 'upsert-kafka', 'topic' = '{given.target}',
            'properties.bootstrap.servers' = '{given.servers}', 'properties.transaction.timeout.ms' = '120000',
            'key.format' = 'raw', 'value.format' = 'json',
            'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = '{given.target}'
        )
    """)
    tables.execute_sql("INSERT INTO counts SELECT `key`, COUNT(*) AS n FROM messages GROUP BY `key`").wait()


if __name__ == "__main__":
    main(count_from_arguments())

"""Do jobs with a real Kafka and a real registry read what was written with other schemas than their own?

And what becomes of a reader that meets a schema that it doesn't know while the registry is gone?
"""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest
from servers.kafka import Kafka
from servers.registry import SchemaRegistry
from tests import older_orders_pb2, orders_pb2
from tests.services.endpoints import Reading
from tests.services.kafka_topics import committed, fresh_topic, produce, values
from tests.services.waiting import until

import cutwater as cw
from cutwater.batches import ObjectBatch
from cutwater.connectors.formats.framing import schema_id_of

ID = {"name": "id", "type": "long"}
CITY = {"name": "city", "type": "string", "default": "Bern"}
OLD = {"type": "record", "name": "Order", "fields": [ID]}
NEW = {"type": "record", "name": "Order", "fields": [ID, CITY]}
OLD_COLUMNS = pa.schema({"id": pa.int64()})
NEW_COLUMNS = pa.schema({"id": pa.int64(), "city": pa.string()})


def write(spark: Any, kafka: Kafka, topic: str, value: Any, rows: list[dict[str, Any]], columns: pa.Schema) -> None:
    env = cw.Environment(spark=spark, parallelism=1)
    sink = cw.sinks.kafka(kafka.address, topic, value=value)
    env.from_collection(rows).with_schema(columns).sink_to(sink, uid="out")
    env.execute("write")


def read(spark: Any, kafka: Kafka, topic: str, value: Any, *columns: str) -> list[tuple[Any, ...]]:
    """Of all messages, typed, in their order."""
    env = cw.Environment(spark=spark, parallelism=1)
    rows = env.from_source(cw.sources.kafka(kafka.address, topic, value=value, bounded=True), uid="in")
    return list(rows.select(*map(cw.col, columns)).map(tuple).execute_and_collect())


def test_a_job_reads_orders_in_avro_from_before_and_after_their_schema_grew(
    kafka: Kafka, registry: SchemaRegistry, spark: Any
) -> None:
    topic = fresh_topic(kafka)
    old, new = (cw.formats.avro(schema, registry=registry.url) for schema in (OLD, NEW))
    write(spark, kafka, topic, old, [{"id": 1}], OLD_COLUMNS)
    registry.demand_compatibility(f"{topic}-value", "FULL")
    write(spark, kafka, topic, new, [{"id": 2, "city": "Rome"}], NEW_COLUMNS)
    newest = cw.formats.avro(registry=registry.url, typed=True)
    assert len({schema_id_of(message) for message in values(committed(kafka, topic))}) == 2
    assert read(spark, kafka, topic, newest, "id", "city") == [(1, "Bern"), (2, "Rome")]
    # And those who know nothing of cities yet can go on.
    assert read(spark, kafka, topic, cw.formats.avro(OLD, registry=registry.url, typed=True), "id") == [(1,), (2,)]


def test_a_job_reads_orders_in_protobuf_from_before_and_after_their_schema_grew(
    kafka: Kafka, registry: SchemaRegistry, spark: Any
) -> None:
    topic = fresh_topic(kafka)
    old, new = (
        cw.formats.protobuf(each.Order, registry=registry.url, typed=True) for each in (older_orders_pb2, orders_pb2)
    )
    write(spark, kafka, topic, old, [{"id": 1}], OLD_COLUMNS)
    registry.demand_compatibility(f"{topic}-value", "BACKWARD")
    write(spark, kafka, topic, new, [{"id": 2, "city": "Rome"}], NEW_COLUMNS)
    assert len({schema_id_of(message) for message in values(committed(kafka, topic))}) == 2
    assert read(spark, kafka, topic, new, "id", "city") == [(1, None), (2, "Rome")]
    assert read(spark, kafka, topic, old, "id") == [(1,), (2,)]


def test_orders_go_through_kafka_in_avro_and_bad_ones_aside(kafka: Kafka, registry: SchemaRegistry, spark: Any) -> None:
    topic = fresh_topic(kafka)
    orders = [{"id": 1, "city": "Rome"}, {"id": 2, "city": "Bern"}]
    write(spark, kafka, topic, cw.formats.avro(NEW, registry=registry.url), orders, NEW_COLUMNS)
    produce(kafka, topic, [b"no Avro"])

    env = cw.Environment(spark=spark, parallelism=1)
    typed = cw.formats.avro(registry=registry.url, typed=True)
    source = cw.sources.kafka(kafka.address, topic, value=typed, bounded=True)
    rows = env.from_source(source, on_error="dead_letter", uid="in")
    # Which offset it has depends on the ends of transactions in front of it.
    letters = rows.side_output("errors").map(lambda letter: (letter.record, letter.position.partition("@")[0]))
    cities = rows.select(cw.col("city")).map(tuple)
    assert sorted(map(str, cities.union(letters).execute_and_collect())) == sorted(
        map(str, [("Rome",), ("Bern",), (b"no Avro", f"{topic}/0")])
    )


def test_a_reader_that_meets_a_new_schema_while_the_registry_is_gone_waits_for_it(
    kafka: Kafka, registry: SchemaRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    topic = fresh_topic(kafka)
    old, new = (
        cw.formats.avro(schema, registry=registry.url).of_topic(topic).encode()(ObjectBatch([row]))
        for schema, row in ((OLD, {"id": 1}), (NEW, {"id": 2, "city": "Rome"}))
    )
    produce(kafka, topic, old)
    source = cw.sources.kafka(kafka.address, topic, value=cw.formats.avro(registry=registry.url))
    with Reading(source) as reading, ThreadPoolExecutor(1) as pool, caplog.at_level(logging.WARNING, logger="cutwater"):
        reading.until(1)
        registry.kill()
        try:
            produce(kafka, topic, old)
            reading.until(2)  # a schema that is known needs no registry
            produce(kafka, topic, new)
            found = pool.submit(reading.until, 3)
            until(lambda: "does not answer" in caplog.text)
        finally:
            registry.restart()
        assert found.result() == [{"id": 1}, {"id": 1}, {"id": 2, "city": "Rome"}]

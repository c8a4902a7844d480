"""Do Avro and Protobuf messages of a real Kafka find their schemas, and what is said when they don't?

The registry is a stand-in (see `registry_stand_in`): a real one could not be had from a package index.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from servers.kafka import Kafka
from tests.orders_pb2 import Order
from tests.services.kafka_topics import fresh_topic, produce
from tests.services.registry_stand_in import StandIn, stand_in_registry

import cutwater as cw
from cutwater.batches import ObjectBatch, rows_of
from cutwater.connectors.bases import patience
from cutwater.connectors.bases.decoding import Place, decoder_of
from cutwater.connectors.failures import PeerError
from cutwater.connectors.formats.framing import header
from cutwater.errors import ConfigurationError

PLACE = Place(lambda position: f"message {position}", lambda index: index)


def record(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "Order", "fields": list(fields)}


ID = {"name": "id", "type": "long"}
CITY = {"name": "city", "type": "string", "default": "Bern"}
PRICE = {"name": "price", "type": "double"}


@pytest.fixture
def registry() -> Iterator[StandIn]:
    with stand_in_registry() as known:
        yield known


def written(value: Any, *records: Any) -> list[bytes | None]:
    return value.of_topic("orders").encode()(ObjectBatch(list(records)))


def read(value: Any, messages: list[bytes | None], *, tolerant: bool = False) -> Any:
    bound = value.of_topic("orders")
    return decoder_of(bound, bound.schema, tolerant=tolerant).decode(messages, PLACE)


def test_a_message_is_read_with_the_schema_it_was_written_with(registry: StandIn) -> None:
    old = written(cw.formats.avro(record(ID), registry=registry.address), {"id": 1})
    new = written(cw.formats.avro(record(ID, CITY), registry=registry.address), {"id": 2, "city": "Rome"})
    decoded = read(cw.formats.avro(registry=registry.address), [*old, *new])
    assert rows_of(decoded.batch) == [{"id": 1}, {"id": 2, "city": "Rome"}]


@pytest.mark.parametrize("typed", [False, True])
def test_a_reader_sees_its_own_schema_whatever_was_written(registry: StandIn, typed: bool) -> None:
    old = written(cw.formats.avro(record(ID), registry=registry.address), {"id": 1})
    new = written(cw.formats.avro(record(ID, CITY), registry=registry.address), {"id": 2, "city": "Rome"})
    batch = read(cw.formats.avro(record(ID, CITY), registry=registry.address, typed=typed), [*old, *new]).batch
    found = rows_of(batch) if isinstance(batch, ObjectBatch) else batch.to_pylist()
    assert found == [{"id": 1, "city": "Bern"}, {"id": 2, "city": "Rome"}]


def test_a_typed_reader_without_a_schema_takes_the_newest(registry: StandIn) -> None:
    for fields in ([ID], [ID, CITY]):
        cw.formats.avro(record(*fields), registry=registry.address).of_topic("orders").check(writes=True)
    bound = cw.formats.avro(registry=registry.address, typed=True).of_topic("orders")
    assert bound.schema == pa.schema([pa.field("id", pa.int64(), False), pa.field("city", pa.string(), False)])


def test_a_schema_may_use_another_subjects(registry: StandIn) -> None:
    city = {"type": "record", "name": "City", "fields": [{"name": "name", "type": "string"}]}
    inner = cw.formats.avro(city, registry=registry.address, subject="city")
    inner.encode()
    order = record(ID, {"name": "city", "type": "City"})
    body = {
        "schema": json.dumps(order),
        "references": [{"name": "City", "subject": "city", "version": 1}],
    }
    status, answer = registry.answer("POST", "/subjects/orders-value/versions", body)
    assert status == 200
    newest = cw.formats.avro(registry=registry.address)
    messages = written(newest, {"id": 1, "city": {"name": "Rome"}})
    assert messages[0] is not None
    assert messages[0].startswith(header(answer["id"]))
    typed = read(cw.formats.avro(registry=registry.address, typed=True), messages).batch
    assert typed.to_pylist() == rows_of(read(newest, messages).batch) == [{"id": 1, "city": {"name": "Rome"}}]


def test_each_schema_is_asked_for_once(registry: StandIn) -> None:
    messages = written(cw.formats.avro(record(ID), registry=registry.address), *({"id": n} for n in range(10)))
    registry.calls.clear()
    read(cw.formats.avro(registry=registry.address), messages)
    assert registry.calls == ["GET /schemas/ids/1"]


@pytest.mark.parametrize("typed", [False, True])
def test_messages_that_do_not_fit_cost_only_themselves(registry: StandIn, typed: bool) -> None:
    good = written(cw.formats.avro(record(ID), registry=registry.address), {"id": 1})
    other = written(cw.formats.avro(record(CITY), registry=registry.address, subject="cities"), {"city": "Rome"})
    bad = [header(99) + b"\x02", b'{"id": 1}', *other]
    value = cw.formats.avro(record(ID), registry=registry.address, typed=typed)
    decoded = read(value, [*good, *bad, *good], tolerant=True)
    assert (decoded.batch.num_rows, [each.raw for each in decoded.unreadable]) == (2, bad)
    assert [str(each.error).partition(":")[0].partition(" at ")[0] for each in decoded.unreadable] == [
        "the schema registry",
        "it begins with byte 0x7b, not with 0x00 and the id of a schema",
        "No default value for field id in Order",
    ]


@pytest.mark.parametrize("typed", [False, True])
def test_protobuf_messages_come_back(registry: StandIn, typed: bool) -> None:
    value = cw.formats.protobuf(Order, registry=registry.address, typed=typed)
    messages = written(value, Order(id=1), {"id": 2, "city": "Rome"})
    assert messages[0] is not None
    assert messages[0].startswith(header(1) + b"\x02\x02")
    assert [each.id for each in rows_of(read(value, messages).batch)] == [1, 2]


def test_protobuf_and_avro_are_not_taken_for_each_other(registry: StandIn) -> None:
    messages = written(cw.formats.avro(record(ID), registry=registry.address), {"id": 1})
    decoded = read(cw.formats.protobuf(Order, registry=registry.address), messages, tolerant=True)
    assert [str(each.error) for each in decoded.unreadable] == ["schema 1 is not Protobuf, but AVRO"]


def test_an_incompatible_schema_is_refused_before_the_job_starts(registry: StandIn) -> None:
    written(cw.formats.avro(record(ID), registry=registry.address), {"id": 1})
    value = cw.formats.avro(record(ID, PRICE), registry=registry.address).of_topic("orders")
    with pytest.raises(ConfigurationError, match="refuses the schema: it is incompatible"):
        value.check(writes=True)


def test_a_sink_that_may_not_register_finds_its_schema_or_says_so(registry: StandIn) -> None:
    value = cw.formats.avro(record(ID), registry=registry.address, register=False).of_topic("orders")
    with pytest.raises(ConfigurationError, match=r'subject "orders-value" .* does not have this schema'):
        value.check(writes=True)
    written(cw.formats.avro(record(ID), registry=registry.address), {"id": 1})
    value.check(writes=True)
    assert len(registry.schemas) == 1


def test_a_subject_that_is_not_there_is_named(registry: StandIn) -> None:
    with pytest.raises(ConfigurationError, match='has no subject "orders-value"'):
        cw.formats.avro(registry=registry.address, typed=True).of_topic("orders")


def test_who_may_not_ask_is_told_so(registry: StandIn) -> None:
    registry.credentials = "ann:secret"
    known = cw.formats.registry(registry.address, user="ann", password="secret")
    cw.formats.avro(record(ID), registry=known).of_topic("orders").check(writes=True)
    stranger = cw.formats.registry(registry.address, user="bob", password="secret")
    with pytest.raises(ConfigurationError, match="refuses this user") as caught:
        cw.formats.avro(record(ID), registry=stranger).of_topic("orders").check(writes=True)
    assert "secret" not in str(caught.value)


def test_a_registry_that_stumbles_is_asked_again(registry: StandIn) -> None:
    messages = written(cw.formats.avro(record(ID), registry=registry.address), {"id": 1})
    registry.failures = 2
    assert rows_of(read(cw.formats.avro(registry=registry.address), messages).batch) == [{"id": 1}]


def test_a_registry_that_is_gone_is_nobodys_fault_but_its_own(registry: StandIn, monkeypatch: Any) -> None:
    messages = written(cw.formats.avro(record(ID), registry=registry.address), {"id": 1})
    monkeypatch.setattr(patience.Patience.__init__, "__kwdefaults__", {"seconds": 0.0})
    registry.failures = 1000
    with pytest.raises(PeerError, match=f"registry at {registry.address} does not answer"):
        read(cw.formats.avro(registry=registry.address), messages, tolerant=True)


def test_orders_go_through_kafka_in_avro_and_bad_ones_aside(kafka: Kafka, registry: StandIn, spark: Any) -> None:
    topic = fresh_topic(kafka)
    value = cw.formats.avro(record(ID, CITY), registry=registry.address)
    env = cw.Environment(spark=spark, parallelism=1)
    orders = env.from_collection([{"id": 1, "city": "Rome"}, {"id": 2, "city": "Bern"}])
    orders.sink_to(cw.sinks.kafka(kafka.address, topic, value=value), uid="out")
    env.execute("write")
    produce(kafka, topic, [b"no Avro"])

    env = cw.Environment(spark=spark, parallelism=1)
    typed = cw.formats.avro(registry=registry.address, typed=True)
    source = cw.sources.kafka(kafka.address, topic, value=typed, bounded=True)
    rows = env.from_source(source, on_error="dead_letter", uid="in")
    # Which offset it has depends on the ends of transactions in front of it.
    letters = rows.side_output("errors").map(lambda letter: (letter.record, letter.position.partition("@")[0]))
    cities = rows.select(cw.col("city")).map(tuple)
    assert sorted(map(str, cities.union(letters).execute_and_collect())) == sorted(
        map(str, [("Rome",), ("Bern",), (b"no Avro", f"{topic}/0")])
    )

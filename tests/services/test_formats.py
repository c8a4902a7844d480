"""Do Avro and Protobuf messages find their schemas in a real registry, and what is said when they don't?"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from servers.registry import SchemaRegistry
from tests.orders_pb2 import Order
from tests.services.troubled_registry import TroubledRegistry, in_front_of

import cutwater as cw
from cutwater.batches import ObjectBatch, rows_of
from cutwater.connectors.bases import patience
from cutwater.connectors.bases.decoding import Place, decoder_of
from cutwater.connectors.failures import PeerError
from cutwater.connectors.formats.framing import header, schema_id_of
from cutwater.connectors.formats.registry import Reference, Registry, RegistryClient
from cutwater.errors import ConfigurationError, OperationsError

PLACE = Place(lambda position: f"message {position}", lambda index: index)


def record(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "Order", "fields": list(fields)}


ID = {"name": "id", "type": "long"}
CITY = {"name": "city", "type": "string", "default": "Bern"}
PRICE = {"name": "price", "type": "double"}


@pytest.fixture
def topic() -> str:
    """Whose subject is new to the registry. The topic itself is nowhere."""
    return f"orders-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def troubled(registry: SchemaRegistry) -> Iterator[TroubledRegistry]:
    with in_front_of(registry) as troubled:
        yield troubled


def written(value: Any, topic: str, *records: Any) -> list[bytes]:
    messages = value.of_topic(topic).encode()(ObjectBatch(list(records)))
    assert None not in messages
    return messages


def client(registry: SchemaRegistry) -> RegistryClient:
    return RegistryClient(Registry(registry.url), patient=False)


def read(value: Any, topic: str, messages: list[bytes], *, tolerant: bool = False) -> Any:
    bound = value.of_topic(topic)
    return decoder_of(bound, bound.schema, tolerant=tolerant).decode(messages, PLACE)


def test_a_message_is_read_with_the_schema_it_was_written_with(registry: SchemaRegistry, topic: str) -> None:
    old = written(cw.formats.avro(record(ID), registry=registry.url), topic, {"id": 1})
    new = written(cw.formats.avro(record(ID, CITY), registry=registry.url), topic, {"id": 2, "city": "Rome"})
    decoded = read(cw.formats.avro(registry=registry.url), topic, [*old, *new])
    assert rows_of(decoded.batch) == [{"id": 1}, {"id": 2, "city": "Rome"}]


@pytest.mark.parametrize("typed", [False, True])
def test_a_reader_sees_its_own_schema_whatever_was_written(registry: SchemaRegistry, topic: str, typed: bool) -> None:
    old = written(cw.formats.avro(record(ID), registry=registry.url), topic, {"id": 1})
    new = written(cw.formats.avro(record(ID, CITY), registry=registry.url), topic, {"id": 2, "city": "Rome"})
    batch = read(cw.formats.avro(record(ID, CITY), registry=registry.url, typed=typed), topic, [*old, *new]).batch
    found = rows_of(batch) if isinstance(batch, ObjectBatch) else batch.to_pylist()
    assert found == [{"id": 1, "city": "Bern"}, {"id": 2, "city": "Rome"}]


def test_a_typed_reader_without_a_schema_takes_the_newest(registry: SchemaRegistry, topic: str) -> None:
    for fields in ([ID], [ID, CITY]):
        cw.formats.avro(record(*fields), registry=registry.url).of_topic(topic).check(writes=True)
    bound = cw.formats.avro(registry=registry.url, typed=True).of_topic(topic)
    assert bound.schema == pa.schema([pa.field("id", pa.int64(), False), pa.field("city", pa.string(), False)])


def test_a_schema_may_use_another_subjects(registry: SchemaRegistry, topic: str) -> None:
    city = {"type": "record", "name": "City", "fields": [{"name": "name", "type": "string"}]}
    cw.formats.avro(city, registry=registry.url, subject=f"{topic}-city").encode()
    order = json.dumps(record(ID, {"name": "city", "type": "City"}))
    others = [Reference("City", f"{topic}-city", 1)]
    schema_id = client(registry).register(f"{topic}-value", order, "AVRO", others, adds=True)
    newest = cw.formats.avro(registry=registry.url)
    messages = written(newest, topic, {"id": 1, "city": {"name": "Rome"}})
    assert messages[0].startswith(header(schema_id))
    typed = read(cw.formats.avro(registry=registry.url, typed=True), topic, messages).batch
    assert typed.to_pylist() == rows_of(read(newest, topic, messages).batch) == [{"id": 1, "city": {"name": "Rome"}}]


def test_each_schema_is_asked_for_once(troubled: TroubledRegistry, topic: str) -> None:
    messages = written(cw.formats.avro(record(ID), registry=troubled.url), topic, *({"id": n} for n in range(10)))
    troubled.calls.clear()
    read(cw.formats.avro(registry=troubled.url), topic, messages)
    assert [call.rpartition("/schemas/")[2] for call in troubled.calls] == [f"ids/{schema_id_of(messages[0])}"]


@pytest.mark.parametrize("typed", [False, True])
def test_messages_that_do_not_fit_cost_only_themselves(registry: SchemaRegistry, topic: str, typed: bool) -> None:
    good = written(cw.formats.avro(record(ID), registry=registry.url), topic, {"id": 1})
    other = written(
        cw.formats.avro(record(CITY), registry=registry.url, subject=f"{topic}-city"), topic, {"city": "Rome"}
    )
    bad = [header(2**31 - 1) + b"\x02", b'{"id": 1}', *other]
    value = cw.formats.avro(record(ID), registry=registry.url, typed=typed)
    decoded = read(value, topic, [*good, *bad, *good], tolerant=True)
    assert (decoded.batch.num_rows, [each.raw for each in decoded.unreadable]) == (2, bad)
    assert [str(each.error).partition(":")[0].partition(" at ")[0] for each in decoded.unreadable] == [
        "the schema registry",
        "it begins with byte 0x7b, not with 0x00 and the id of a schema",
        "No default value for field id in Order",
    ]


@pytest.mark.parametrize("typed", [False, True])
def test_protobuf_messages_come_back(registry: SchemaRegistry, topic: str, typed: bool) -> None:
    value = cw.formats.protobuf(Order, registry=registry.url, typed=typed)
    messages = written(value, topic, Order(id=1), {"id": 2, "city": "Rome"})
    schema_id = client(registry).version(f"{topic}-value").id
    assert schema_id is not None
    assert messages[0].startswith(header(schema_id) + b"\x02\x02")
    assert [each.id for each in rows_of(read(value, topic, messages).batch)] == [1, 2]


def test_protobuf_and_avro_are_not_taken_for_each_other(registry: SchemaRegistry, topic: str) -> None:
    messages = written(cw.formats.avro(record(ID), registry=registry.url), topic, {"id": 1})
    decoded = read(cw.formats.protobuf(Order, registry=registry.url), topic, messages, tolerant=True)
    assert [str(each.error) for each in decoded.unreadable] == [
        f"schema {schema_id_of(messages[0])} is not Protobuf, but AVRO"
    ]


def test_an_incompatible_schema_is_refused_before_the_job_starts(registry: SchemaRegistry, topic: str) -> None:
    written(cw.formats.avro(record(ID), registry=registry.url), topic, {"id": 1})
    registry.demand_compatibility(f"{topic}-value", "BACKWARD")
    value = cw.formats.avro(record(ID, PRICE), registry=registry.url).of_topic(topic)
    with pytest.raises(ConfigurationError, match="refuses the schema: it is incompatible"):
        value.check(writes=True)


def test_an_incompatible_protobuf_schema_is_refused_too(registry: SchemaRegistry, topic: str) -> None:
    number, text = (message("orders.proto", "Order", [("id", kind)]) for kind in (Field.TYPE_INT64, Field.TYPE_STRING))
    cw.formats.protobuf(number, registry=registry.url).of_topic(topic).check(writes=True)
    registry.demand_compatibility(f"{topic}-value", "BACKWARD")
    with pytest.raises(ConfigurationError, match="refuses the schema: it is incompatible"):
        cw.formats.protobuf(text, registry=registry.url).of_topic(topic).check(writes=True)


def test_a_protobuf_file_brings_those_that_it_imports(registry: SchemaRegistry, topic: str) -> None:
    city = message(f"{topic}/city.proto", "City", [("name", Field.TYPE_STRING)])
    order = message("orders.proto", "Order", [("city", city)])
    value = cw.formats.protobuf(order, registry=registry.url)
    messages = written(value, topic, {"city": {"name": "Rome"}})
    known = client(registry).version(f"{topic}-value")
    assert known.references == (Reference(f"{topic}/city.proto", f"{topic}/city.proto", 1),)
    assert known.text.splitlines()[-3:] == ["message Order {", "  .shop.City city = 1;", "}"]
    (found,) = rows_of(read(value, topic, messages).batch)
    assert found.city.name == "Rome"


def message(file: str, name: str, fields: Sequence[tuple[str, Any]]) -> Any:
    """A class as protoc would make it, with a file of its own. Fields have a type of Protobuf, or are such messages."""
    made = FileDescriptorProto(name=file, package="shop", syntax="proto3")
    pool, described = DescriptorPool(), made.message_type.add(name=name)
    for number, (field, kind) in enumerate(fields, start=1):
        added = described.field.add(name=field, number=number, label=Field.LABEL_OPTIONAL)
        if isinstance(kind, type):
            added.type, added.type_name = Field.TYPE_MESSAGE, f".{kind.DESCRIPTOR.full_name}"
            made.dependency.append(kind.DESCRIPTOR.file.name)
            pool.AddSerializedFile(kind.DESCRIPTOR.file.serialized_pb)
        else:
            added.type = kind
    pool.AddSerializedFile(made.SerializeToString())
    return GetMessageClass(pool.FindMessageTypeByName(f"shop.{name}"))


def test_a_sink_that_may_not_register_finds_its_schema_or_says_so(registry: SchemaRegistry, topic: str) -> None:
    value = cw.formats.avro(record(ID), registry=registry.url, register=False).of_topic(topic)
    with pytest.raises(ConfigurationError, match=rf'subject "{topic}-value" .* does not have this schema'):
        value.check(writes=True)
    written(cw.formats.avro(record(ID), registry=registry.url), topic, {"id": 1})
    value.check(writes=True)
    assert client(registry).version(f"{topic}-value").version == 1


def test_a_schema_is_found_however_others_have_written_it(registry: SchemaRegistry, topic: str) -> None:
    text = json.dumps(record(ID), indent=4)
    schema_id = client(registry).register(f"{topic}-value", text, "AVRO", (), adds=True)
    messages = written(cw.formats.avro(record(ID), registry=registry.url, register=False), topic, {"id": 1})
    assert schema_id_of(messages[0]) == schema_id


def test_a_subject_that_is_not_there_is_named(registry: SchemaRegistry, topic: str) -> None:
    with pytest.raises(ConfigurationError, match=f'has no subject "{topic}-value"'):
        cw.formats.avro(registry=registry.url, typed=True).of_topic(topic)


def test_who_may_not_ask_is_told_so(troubled: TroubledRegistry, topic: str) -> None:
    troubled.credentials = "ann:secret"
    known = cw.formats.registry(troubled.url, user="ann", password="secret")
    cw.formats.avro(record(ID), registry=known).of_topic(topic).check(writes=True)
    stranger = cw.formats.registry(troubled.url, user="bob", password="secret")
    with pytest.raises(ConfigurationError, match="refuses this user") as caught:
        cw.formats.avro(record(ID), registry=stranger).of_topic(topic).check(writes=True)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("writes", [False, True])
def test_an_address_without_the_registrys_path_is_found_out_before_the_job_starts(
    registry: SchemaRegistry, topic: str, writes: bool
) -> None:
    value = cw.formats.avro(record(ID), registry=f"http://{registry.address}").of_topic(topic)
    with pytest.raises(ConfigurationError, match="does not know this call") as caught:
        value.check(writes=writes)
    assert "/apis/ccompat/v7" in caught.value.hint


def test_no_message_is_skipped_because_the_registry_refuses_its_reader(troubled: TroubledRegistry, topic: str) -> None:
    messages = written(cw.formats.avro(record(ID), registry=troubled.url), topic, {"id": 1})
    troubled.credentials = "ann:secret"
    with pytest.raises(OperationsError, match="refuses this user"):
        read(cw.formats.avro(registry=troubled.url), topic, messages, tolerant=True)


def test_a_registry_that_stumbles_is_asked_again(troubled: TroubledRegistry, topic: str) -> None:
    messages = written(cw.formats.avro(record(ID), registry=troubled.url), topic, {"id": 1})
    troubled.failures = 2
    assert rows_of(read(cw.formats.avro(registry=troubled.url), topic, messages).batch) == [{"id": 1}]


def test_a_registry_that_is_gone_is_nobodys_fault_but_its_own(
    troubled: TroubledRegistry, topic: str, monkeypatch: Any
) -> None:
    messages = written(cw.formats.avro(record(ID), registry=troubled.url), topic, {"id": 1})
    monkeypatch.setattr(patience.Patience.__init__, "__kwdefaults__", {"seconds": 0.0})
    troubled.failures = 1000
    with pytest.raises(PeerError, match=f"registry at {troubled.url} does not answer"):
        read(cw.formats.avro(registry=troubled.url), topic, messages, tolerant=True)

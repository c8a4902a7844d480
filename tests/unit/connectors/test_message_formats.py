"""Do records survive the way through Avro and Protobuf, and is what can't be read refused?"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileOptions
from google.protobuf.descriptor_pool import DescriptorPool
from hypothesis import given
from hypothesis import strategies as st
from tests.orders_pb2 import Note, Order

from cutwater.batches import ObjectBatch, rows_of
from cutwater.connectors import formats
from cutwater.connectors.bases.decoding import Place, decoder_of
from cutwater.connectors.formats.framing import header, packed_indexes, schema_id_of, skip_indexes
from cutwater.connectors.formats.protobuf_messages import _indexes
from cutwater.errors import ConfigurationError, SerializationError

PLACE = Place(lambda position: f"message {position}", lambda index: index)
NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)

SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "city", "type": ["null", "string"], "default": None},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "placed", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "opens", "type": {"type": "int", "logicalType": "time-millis"}},
        {"name": "key", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["OPEN", "PAID"]}},
        {"name": "before", "type": ["null", "State"], "default": None},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "counts", "type": {"type": "map", "values": "int"}},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 2}},
        {"name": "note", "type": {"type": "record", "name": "Note", "fields": [{"name": "text", "type": "string"}]}},
    ],
}
ORDER = {
    "id": 7, "city": "Bern", "price": Decimal("1.50"), "placed": NOON, "day": date(2026, 1, 2), "opens": time(8, 30),
    "key": UUID(int=5), "state": "PAID", "before": None, "tags": ["a"], "counts": {"x": 1}, "hash": b"\x01\x02",
    "note": {"text": "now"},
}  # fmt: skip


def through(written: Any, read: Any, batch: Any) -> list[Any]:
    messages = written.encode()(batch)
    return rows_of(decoder_of(read, read.schema).decode(messages, PLACE).batch)


def test_dicts_survive_avro() -> None:
    bare = formats.avro(SCHEMA)
    assert through(bare, bare, ObjectBatch([ORDER, None])) == [ORDER, None]


def test_typed_rows_survive_avro() -> None:
    typed = formats.avro(json.dumps(SCHEMA), typed=True)
    batch = pa.RecordBatch.from_pylist([{**ORDER, "key": str(ORDER["key"])}], schema=typed.schema)
    messages = typed.encode()(batch)
    assert decoder_of(typed, typed.schema).decode(messages, PLACE).batch == batch


def test_columns_of_avro_have_its_types() -> None:
    schema = formats.avro(SCHEMA, typed=True).schema
    assert schema is not None
    assert {field.name: str(field.type) for field in schema} == {
        "id": "int64", "city": "string", "price": "decimal128(9, 2)", "placed": "timestamp[us, tz=UTC]",
        "day": "date32[day]", "opens": "time32[ms]", "key": "string", "state": "string", "before": "string",
        "tags": "list<item: string not null>", "counts": "map<string, int32>",
        "hash": "fixed_size_binary[2]", "note": "struct<text: string not null>",
    }  # fmt: skip
    assert [field.name for field in schema if field.nullable] == ["city", "before"]


def test_only_the_columns_that_are_asked_for_are_made() -> None:
    typed = formats.avro(SCHEMA, typed=True)
    columns = pa.schema([("city", pa.string())])
    messages = typed.encode()(ObjectBatch([ORDER]))
    assert decoder_of(typed, columns).decode(messages, PLACE).batch.to_pylist() == [{"city": "Bern"}]


@dataclass
class Point:
    x: int


@pytest.mark.parametrize("record", [{"x": 1}, Point(1)])
def test_records_of_many_kinds_can_be_written(record: Any) -> None:
    point = formats.avro({"type": "record", "name": "P", "fields": [{"name": "x", "type": "int"}]})
    assert point.encode()(ObjectBatch([record])) == [b"\x02"]


@pytest.mark.parametrize("record", [{}, {"x": "one"}, {"x": 1, "y": 2}, 7])
def test_a_record_that_does_not_fit_is_refused(record: Any) -> None:
    point = formats.avro({"type": "record", "name": "P", "fields": [{"name": "x", "type": "int"}]})
    with pytest.raises(SerializationError, match="doesn't fit the Avro schema"):
        point.encode()(ObjectBatch([record]))


@pytest.mark.parametrize("typed", [False, True])
@pytest.mark.parametrize("bad", [b"", b"\x02", b"\x02\x02a!"])
def test_avro_that_breaks_off_or_goes_on_costs_only_itself(typed: bool, bad: bytes) -> None:
    schema = {"type": "record", "name": "P", "fields": [{"name": "x", "type": "int"}, {"name": "s", "type": "string"}]}
    made = formats.avro(schema, typed=typed)
    (good,) = made.encode()(ObjectBatch([{"x": 1, "s": "a"}]))
    decoded = decoder_of(made, made.schema, tolerant=True).decode([good, bad, good], PLACE)
    assert (decoded.batch.num_rows, [each.raw for each in decoded.unreadable]) == (2, [bad])


def test_messages_survive_protobuf() -> None:
    bare = formats.protobuf(Order)
    order = Order(id=7, city="Bern", items=[Order.Item(name="tea", cents=250)])
    assert through(bare, bare, ObjectBatch([order, {"id": 8, "state": "PAID"}])) == [order, Order(id=8, state=1)]


def test_typed_rows_survive_protobuf() -> None:
    typed = formats.protobuf(Order, typed=True)
    rows = [
        {
            "id": 7, "city": None, "state": "PAID", "items": [{"name": "tea", "cents": 250}], "counts": [("x", 1)],
            "placed": NOON, "note": {"text": "now"},
        },
        {"id": 0, "city": "", "state": "OPEN", "items": [], "counts": [], "placed": None, "note": None},
    ]  # fmt: skip
    batch = pa.RecordBatch.from_pylist(rows, schema=typed.schema)
    messages = typed.encode()(batch)
    assert decoder_of(typed, typed.schema).decode(messages, PLACE).batch == batch


def test_a_record_that_is_no_such_message_is_refused() -> None:
    with pytest.raises(SerializationError, match=r"can't become a Protobuf message shop\.Note"):
        formats.protobuf(Note).encode()(ObjectBatch([{"nothing": 1}]))


@given(st.integers(0, 2**32 - 1), st.lists(st.integers(0, 300), min_size=1, max_size=5), st.binary(max_size=5))
def test_a_frame_is_read_as_it_was_written(schema_id: int, indexes: list[int], value: bytes) -> None:
    message = header(schema_id) + packed_indexes(indexes) + value
    assert (schema_id_of(message), message[skip_indexes(message, 5) :]) == (schema_id, value)


def test_frames_are_those_of_other_serializers() -> None:
    assert header(1) == b"\x00\x00\x00\x00\x01"
    assert [packed_indexes(each) for each in ([0], [1], [1, 0])] == [b"\x00", b"\x02\x02", b"\x04\x02\x00"]


def test_a_message_inside_another_has_a_path() -> None:
    assert [_indexes(each.DESCRIPTOR) for each in (Note, Order, Order.Item)] == [[0], [1], [1, 0]]


@pytest.mark.parametrize(("options", "path"), [(b"", [0, 0]), (b"\xc2\xf3\x18\x01a", [0, 1])])
def test_an_entry_of_a_map_counts_only_where_the_registry_has_a_descriptor(options: bytes, path: list[int]) -> None:
    """A text can't hold the second options: they are the file's own."""
    file = FileDescriptorProto(name="a.proto", syntax="proto3", options=FileOptions.FromString(options))
    outer = file.message_type.add(name="Outer")
    entry = outer.nested_type.add(name="AEntry", options={"map_entry": True})
    for number, name in ((1, "key"), (2, "value")):
        entry.field.add(name=name, number=number, type=Field.TYPE_STRING, label=Field.LABEL_OPTIONAL)
    outer.field.add(name="a", number=1, type=Field.TYPE_MESSAGE, type_name=".Outer.AEntry", label=Field.LABEL_REPEATED)
    outer.nested_type.add(name="Inner")
    pool = DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    assert _indexes(pool.FindMessageTypeByName("Outer.Inner")) == path


@pytest.mark.parametrize("message", [b"", b"\0\0\0\0", b"\x01\0\0\0\1x", b'{"n": 1}'])
def test_what_has_no_frame_is_refused(message: bytes) -> None:
    with pytest.raises(ValueError, match="id of a schema"):
        schema_id_of(message)


UNION = {"type": "record", "name": "U", "fields": [{"name": "u", "type": ["string", "long"]}]}
ITSELF = {"type": "record", "name": "L", "fields": [{"name": "next", "type": ["null", "L"]}]}


@pytest.mark.parametrize(
    ("make", "fact"),
    [
        (lambda: formats.avro(), "needs a schema or a registry"),
        (lambda: formats.avro("{"), "is no Avro schema"),
        (lambda: formats.avro({"type": "recor"}), "is no Avro schema"),
        (lambda: formats.avro('"string"', typed=True), "only an Avro record has columns"),
        (lambda: formats.avro(UNION, typed=True), "'u' of the Avro schema has no column type"),
        (lambda: formats.avro(ITSELF, typed=True), "'next' of the Avro schema has no column type"),
        (lambda: formats.protobuf(dict), "takes a class that protoc generated"),
        (lambda: formats.registry("localhost:8081"), "begins with http"),
        (lambda: formats.registry("http://a:b@c"), "must not hold credentials"),
        (lambda: formats.registry("http://c", user="a"), "takes user and password"),
    ],
)
def test_what_cannot_be_a_format_is_refused(make: Any, fact: str) -> None:
    with pytest.raises(ConfigurationError, match=fact):
        make()


def test_a_password_is_in_no_text() -> None:
    assert "secret" not in repr(formats.avro(registry=formats.registry("http://c", user="a", password="secret")))

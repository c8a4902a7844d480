"""Does every message become its record, and does a bad one cost only itself?"""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.batches import rows_of
from cutwater.connectors.bases.decoding import Decoder, Place, ValueDecoder, decoder_of, settled
from cutwater.connectors.bases.json_rows import JsonRows
from cutwater.connectors.failures import PeerError
from cutwater.errors import ConfigurationError, SchemaError, UserFunctionError

SCHEMA = pa.schema([("n", pa.int64()), ("s", pa.string())])
PLACE = Place(lambda position: f"message {position}", lambda index: index + 10)


def parse(payload: bytes) -> int:
    return int(payload)


@pytest.mark.parametrize(
    ("value", "expected"),
    [("bytes", [b"1", b"22"]), ("text", ["1", "22"]), ("json", [1, 22]), (len, [1, 2])],
)
def test_messages_become_values(value: Any, expected: list[object]) -> None:
    assert rows_of(decoder_of(value).decode([b"1", b"22"], PLACE).batch) == expected


def test_json_objects_become_rows_of_a_schema() -> None:
    batch = decoder_of("json", SCHEMA).decode([b' {"n": 1, "s": "a"}\n', b'{"x": {}, "n": 2}', None], PLACE).batch
    assert batch == pa.record_batch([[1, 2, None], ["a", None, None]], schema=SCHEMA)


def test_a_timestamp_may_be_a_text_or_a_number() -> None:
    schema = pa.schema([("t", pa.timestamp("ms"))])
    batch = decoder_of("json", schema).decode([b'{"t": 1577836800000}', b'{"t": "2020-01-01"}'], PLACE).batch
    assert len(set(batch.column("t").to_pylist())) == 1


def test_types_that_the_quick_parser_does_not_know_are_read_as_well() -> None:
    schema = pa.schema([("d", pa.dictionary(pa.int32(), pa.string()))])
    assert decoder_of("json", schema).decode([b'{"d": "x"}'], PLACE).batch.to_pylist() == [{"d": "x"}]


@given(
    st.lists(
        st.fixed_dictionaries(
            {}, optional={"n": st.none() | st.integers(-(2**63), 2**63 - 1), "s": st.none() | st.text(), "x": st.text()}
        )
    )
)
def test_objects_through_structs_are_the_rows_that_arrow_makes_of_them(objects: list[dict[str, Any]]) -> None:
    batch = JsonRows(SCHEMA)([msgspec.json.encode(each) for each in objects])
    assert batch == pa.RecordBatch.from_pylist(objects, schema=SCHEMA)


BAD: list[tuple[Any, pa.Schema | None, bytes]] = [
    ("text", None, b"\xff"),
    ("json", None, b"{"),
    ("json", None, b""),
    ("json", SCHEMA, b'{"n": "x"}'),
    ("json", SCHEMA, b'{"s": "\xff"}'),
    ("json", SCHEMA, b'{"n": 1}{"n": 2}'),
    ("json", SCHEMA, b'{"n": 1'),
    ("json", SCHEMA, b'{"n": 1}\n{"n": 2}'),
    ("json", SCHEMA, b"7"),
    ("json", SCHEMA, b""),
    ("json", SCHEMA, b"[]"),
]


@pytest.mark.parametrize(("value", "schema", "bad"), BAD)
def test_an_unreadable_message_is_named(value: Any, schema: pa.Schema | None, bad: bytes) -> None:
    good = b"{}"
    with pytest.raises(SchemaError, match="message 12 can't be decoded") as caught:
        decoder_of(value, schema).decode([good, good, bad, good, bad], PLACE)
    assert repr(bad) in caught.value.detail


@pytest.mark.parametrize(("value", "schema", "bad"), BAD)
def test_where_it_is_tolerated_a_bad_message_costs_only_itself(
    value: Any, schema: pa.Schema | None, bad: bytes
) -> None:
    messages = [b'{"n": %d}' % number for number in range(9)]
    decoded = decoder_of(value, schema, tolerant=True).decode([*messages[:3], bad, *messages[3:], bad], PLACE)
    assert decoded.batch == decoder_of(value, schema).decode(messages, PLACE).batch
    assert decoded.kept == [0, 1, 2, *range(4, 10)]
    assert [(each.raw, each.position) for each in decoded.unreadable] == [(bad, 13), (bad, 20)]


@given(st.lists(st.sampled_from([b'{"n": 1, "s": "a"}', b'{"n": 2}', b"{", b'{"n": ""}', b'{"n": 1}{"n": 1}'])))
def test_rows_are_those_that_can_be_read_alone(messages: list[bytes]) -> None:
    decoder = decoder_of("json", SCHEMA, tolerant=True)
    alone = [decoder.decode([message], PLACE).batch for message in messages]
    found = decoder.decode(messages, PLACE).batch if messages else None
    expected = [batch.to_pylist()[0] for batch in alone if batch is not None]
    assert ([] if found is None else found.to_pylist()) == expected


def test_nothing_readable_is_no_batch() -> None:
    assert [decoder_of("json", schema, tolerant=True).decode([b"{"], PLACE).batch for schema in (None, SCHEMA)] == [
        None,
        None,
    ]


def test_a_function_that_fails_is_named_with_its_message() -> None:
    with pytest.raises(UserFunctionError, match="value= raised ValueError") as caught:
        decoder_of(parse).decode([b"1", b"x"], PLACE)
    assert "message 11: b'x'" in caught.value.detail


def test_a_function_is_called_once_for_each_message() -> None:
    calls: list[bytes] = []

    def fragile(payload: bytes) -> int:
        calls.append(payload)
        if payload == b"stop":
            raise StopIteration
        return int(payload)

    decoded = decoder_of(fragile, tolerant=True).decode([b"1", b"x", b"stop", b"4"], PLACE)
    assert (rows_of(decoded.batch), calls) == ([1, 4], [b"1", b"x", b"stop", b"4"])
    assert {each.function for each in decoded.unreadable} == {fragile}


@pytest.mark.parametrize("error", [MemoryError(), PeerError("the registry is gone")])
def test_what_no_message_is_to_blame_for_is_not_tolerated(error: Exception) -> None:
    def fail(payload: bytes) -> None:
        raise error

    decoder: Decoder = ValueDecoder(fail, tolerant=True)
    with pytest.raises(type(error)):
        decoder.decode([b"1"], PLACE)


@pytest.mark.parametrize(
    ("value", "schema", "fact"),
    [
        ("xml", None, "'xml' is unknown"),
        (7, None, "7 is unknown"),
        ("text", SCHEMA, "'text' has no columns"),
        ("json", [("n", "int")], "must be a pyarrow.Schema"),
        ("json", pa.schema([("u", pa.dense_union([pa.field("a", pa.int8())]))]), "can't be read into this schema"),
    ],
)
def test_what_cannot_decode_is_refused(value: Any, schema: Any, fact: str) -> None:
    with pytest.raises(ConfigurationError, match=fact):
        settled(value, schema, topic=None)

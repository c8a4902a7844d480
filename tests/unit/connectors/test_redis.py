"""What is asked of Redis, and does a position notice what is gone?"""

from __future__ import annotations

import msgspec
import pyarrow as pa
import pytest

import cutwater as cw
from cutwater.batches import ObjectBatch, make_row
from cutwater.connectors.contract import Delivery, Replay
from cutwater.connectors.redis.entries import EntryDecoder, fields_of
from cutwater.connectors.redis.positions import Position, StreamState, advanced, check_nothing_lost, start_of
from cutwater.errors import ConfigurationError, CutwaterError, OperationsError, SchemaError, SerializationError

URL = "redis://someone:secret@example.org:7000/1"
#: Ten were added, the first four are trimmed.
TRIMMED = StreamState(length=6, added=10, first="5-0", last="10-0")


def test_source_and_sinks_say_what_they_promise() -> None:
    source = cw.sources.redis_stream(URL, ["a", "b"])
    sinks = (
        cw.sinks.redis(URL, key="id"),
        cw.sinks.redis_stream(URL, "out"),
        cw.sinks.redis_stream(URL, "out", delivery="at_least_once"),
    )
    assert (source.name, source.replay) == ("redis_stream(a, b)", Replay.REPLAYABLE)
    assert [sink.delivery for sink in sinks] == [Delivery.IDEMPOTENT, Delivery.WRITE_AHEAD, Delivery.PLAIN]


def test_a_password_is_shown_nowhere() -> None:
    from cutwater.connectors.redis.connection import Address

    address = Address(URL, {"password": "secret"})
    assert (str(address), "secret" in repr(address)) == ("example.org:7000", False)


@pytest.mark.parametrize(
    ("make", "fact"),
    [
        (lambda: cw.sources.redis_stream("http://x", "s"), "begins with redis://"),
        (lambda: cw.sources.redis_stream(URL, []), "stream must be"),
        (lambda: cw.sources.redis_stream(URL, ["a", "a"]), "stream must be"),
        (lambda: cw.sources.redis_stream(URL, "a", start="yesterday"), "start must be"),
        (lambda: cw.sources.redis_stream(URL, "a", value="f", schema=pa.schema([])), "value= can't be given"),
        (lambda: cw.sinks.redis(URL, key=""), "key must be"),
        (lambda: cw.sinks.redis(URL, key=7), "key must be"),
        (lambda: cw.sinks.redis(URL, key="k", delivery="exactly_once"), "is unknown"),
        (lambda: cw.sinks.redis_stream(URL, "s", maxlen=0), "maxlen must be"),
    ],
)
def test_impossible_settings_are_refused(make: object, fact: str) -> None:
    with pytest.raises(ConfigurationError, match=fact) as raised:
        make()  # type: ignore[operator]
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("start", "position"),
    [
        ("earliest", Position("0-0", 4)),
        ("latest", Position("10-0", 10)),
        ("3-0", Position("3-0", 4)),
        ("7-0", Position("7-0", None)),
    ],
)
def test_the_start_knows_how_many_entries_came_before_it(start: str, position: Position) -> None:
    assert start_of(TRIMMED, start) == position


@pytest.mark.parametrize(
    ("position", "next_id"),
    [
        (Position("0-0", 4), "5-0"),  # the start, after a trim
        (Position("4-0", 4, "5-0"), "5-0"),  # all that was read is trimmed, and no more
        (Position("4-0", 4), "5-0"),  # the same, when there was nothing behind 4-0
        (Position("6-0", None, "7-0"), "8-0"),  # 7-0 was deleted by its id: 5-0 is still there
        (Position("10-0", 10), None),
        (Position("3-0", None), "5-0"),  # begun at an id: what was there before is unknown
    ],
)
def test_what_was_read_may_be_trimmed(position: Position, next_id: str | None) -> None:
    check_nothing_lost("s", position, TRIMMED, next_id)


@pytest.mark.parametrize(
    ("position", "state", "next_id", "fact"),
    [
        (Position("3-0", 3, "4-0"), TRIMMED, "5-0", "trimmed before it was read"),
        (Position("3-0", 3), TRIMMED, "5-0", "trimmed before it was read"),
        (Position("8-0", 8, "9-0"), StreamState(0, 10, "0-0", "10-0"), None, "trimmed before it was read"),
        (Position("8-0", 8), StreamState(0, 10, "0-0", "10-0"), None, "trimmed before it was read"),
        (Position("8-0", 8), StreamState(3, 3, "1-0", "3-0"), None, "lost entries that were read"),
        (Position("8-0", 8), StreamState(3, 3, "11-0", "13-0"), "11-0", "lost entries that were read"),
    ],
)
def test_what_is_gone_and_was_not_read_is_an_error(
    position: Position, state: StreamState, next_id: str | None, fact: str
) -> None:
    with pytest.raises(OperationsError, match=fact):
        check_nothing_lost("s", position, state, next_id)


def test_a_position_counts_on_and_is_exact_at_the_end() -> None:
    middle = advanced(Position("4-0", 4), TRIMMED, last_read="7-0", rows=3, next_id="8-0")
    end = advanced(middle, TRIMMED, last_read="10-0", rows=2, next_id=None)
    assert (middle, end) == (Position("7-0", 7, "8-0"), Position("10-0", 10))


def test_a_position_survives_a_snapshot() -> None:
    position = Position("7-0", None, "8-0")
    stored = msgspec.msgpack.decode(msgspec.msgpack.encode(msgspec.to_builtins(position)))
    assert msgspec.convert(stored, Position) == position


ENTRIES = [(b"1-0", {b"n": b"1", b"name": b"one"}), (b"2-0", {b"n": b"2"})]


def test_entries_become_what_the_user_asks_for() -> None:
    def values(value: object) -> list[object]:
        batch = EntryDecoder("s", value, None).decode(ENTRIES).batch  # type: ignore[arg-type]
        assert isinstance(batch, ObjectBatch)
        return batch.values

    assert values(None) == [{"n": "1", "name": "one"}, {"n": "2"}]
    assert values("n") == ["1", "2"]
    assert values(lambda entry_id, fields: (entry_id, fields[b"n"])) == [("1-0", b"1"), ("2-0", b"2")]


def test_a_schema_makes_typed_columns() -> None:
    schema = pa.schema([("n", pa.int64()), ("name", pa.string())])
    batch = EntryDecoder("s", None, schema).decode(ENTRIES).batch
    assert batch == pa.RecordBatch.from_pylist([{"n": 1, "name": "one"}, {"n": 2, "name": None}], schema=schema)


@pytest.mark.parametrize(
    ("decoder", "error", "fact"),
    [
        (EntryDecoder("s", "name", None), SchemaError, "entry 2-0 of stream"),
        (EntryDecoder("s", None, pa.schema([("name", pa.int64())])), SchemaError, "entry 1-0 of stream"),
        (EntryDecoder("s", lambda _, fields: fields[b"name"], None), CutwaterError, "value= raised KeyError"),
    ],
)
def test_an_entry_that_cannot_be_decoded_is_named(decoder: EntryDecoder, error: type[CutwaterError], fact: str) -> None:
    with pytest.raises(error, match=fact):
        decoder.decode(ENTRIES)


def test_records_become_fields() -> None:
    row = make_row(("n", "name"), (1, None))
    assert [fields_of(record) for record in ({"a": 1.5}, row, "text", True)] == [
        ["a", 1.5],
        ["n", 1],
        ["value", "text"],
        ["value", 1],
    ]


@pytest.mark.parametrize("record", [{}, {"a": [1]}, None, object()])
def test_a_record_that_redis_cannot_hold_is_refused(record: object) -> None:
    with pytest.raises(SerializationError, match="can't become an entry"):
        fields_of(record)

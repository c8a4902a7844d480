"""What is asked of NATS, and what do its messages become?"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import cutwater as cw
from cutwater.batches import ObjectBatch, make_row
from cutwater.connectors.contract import Delivery, Replay
from cutwater.connectors.nats import source as nats_source
from cutwater.connectors.nats.messages import MessageDecoder, payload_of
from cutwater.connectors.nats.session import Servers
from cutwater.connectors.nats.source import MessageFetcher, Start, before_gap, start_of
from cutwater.errors import ConfigurationError, OperationsError, SchemaError, SerializationError

URL = "nats://someone:secret@example.org"


def message(sequence: int, data: bytes) -> Any:
    return SimpleNamespace(data=data, metadata=SimpleNamespace(sequence=SimpleNamespace(stream=sequence)))


MESSAGES = [message(7, b'{"n":1}'), message(9, b'{"n":2}')]


def test_source_and_sinks_say_what_they_promise() -> None:
    source = cw.sources.nats(URL, "orders", subject="orders.*")
    sinks = (
        cw.sinks.nats(URL, "out"),
        cw.sinks.nats(URL, "out", delivery="fingerprint", id=str),
        cw.sinks.nats(URL, "out", delivery="at_least_once"),
    )
    assert (source.name, source.replay) == ("nats(orders, orders.*)", Replay.REPLAYABLE)
    assert [sink.delivery for sink in sinks] == [Delivery.WRITE_AHEAD, Delivery.FINGERPRINT, Delivery.PLAIN]


def test_a_password_is_shown_nowhere() -> None:
    servers = Servers.of([URL, "nats://token@example.net:4333"], {"password": "secret"})
    assert (str(servers), "secret" in repr(servers)) == ("example.org:4222, example.net:4333", False)


@pytest.mark.parametrize(
    ("make", "fact"),
    [
        (lambda: cw.sources.nats([], "s"), "servers must be URLs"),
        (lambda: cw.sources.nats(URL, ""), "stream must be"),
        (lambda: cw.sources.nats(URL, "s", start=0), "start must be"),
        (lambda: cw.sources.nats(URL, "s", start=datetime(2026, 1, 1)), "must have a time zone"),  # noqa: DTZ001
        (lambda: cw.sources.nats(URL, "s", value="xml"), "is unknown"),
        (lambda: cw.sinks.nats(URL, "a.*"), "subject must be"),
        (lambda: cw.sinks.nats(URL, "a", delivery="fingerprint"), "belong together"),
        (lambda: cw.sinks.nats(URL, "a", id=str), "belong together"),
        (lambda: cw.sinks.nats(URL, "a", delivery="maybe"), "is unknown"),
    ],
)
def test_impossible_settings_are_refused(make: Any, fact: str) -> None:
    with pytest.raises(ConfigurationError, match=fact) as raised:
        make()
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("start", "position"),
    [
        ("earliest", 4),
        ("latest", 10),
        (2, 4),
        (8, 7),
        (datetime(2026, 1, 1, tzinfo=UTC), "2026-01-01T00:00:00+00:00"),
    ],
)
def test_the_start_is_in_front_of_a_message_that_is_there(start: Start, position: int | str) -> None:
    assert start_of(SimpleNamespace(first_seq=5, last_seq=10), start) == position


def test_messages_become_what_the_user_asks_for() -> None:
    def values(value: Any) -> list[Any]:
        batch = MessageDecoder("s", value, None).decode(MESSAGES).batch
        assert isinstance(batch, ObjectBatch)
        return batch.values

    assert values("bytes") == [b'{"n":1}', b'{"n":2}']
    assert values("text") == ['{"n":1}', '{"n":2}']
    assert values("json") == [{"n": 1}, {"n": 2}]
    assert values(lambda each: each.metadata.sequence.stream) == [7, 9]


def test_a_schema_makes_typed_columns() -> None:
    schema = pa.schema([("n", pa.int64())])
    batch = MessageDecoder("s", "bytes", schema).decode(MESSAGES).batch
    assert batch == pa.RecordBatch.from_pylist([{"n": 1}, {"n": 2}], schema=schema)


def test_a_message_that_cannot_be_decoded_is_named() -> None:
    with pytest.raises(SchemaError, match="message 8 of stream"):
        MessageDecoder("s", "json", None).decode([MESSAGES[0], message(8, b"{")])


def test_records_become_payloads() -> None:
    row = make_row(("n", "name"), (1, None))
    assert [payload_of(record) for record in (b"\xff", "é", {"a": 1}, row, 7)] == [
        b"\xff",
        b"\xc3\xa9",
        b'{"a":1}',
        b'{"n":1,"name":null}',
        b"7",
    ]


def test_a_record_that_json_cannot_hold_is_refused() -> None:
    with pytest.raises(SerializationError, match="can't become a message"):
        payload_of(object())


def fetched_behind(position: int, *sequences: int, first_of_stream: int, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What a fetch gives in which the server delivers these."""
    messages = [message(sequence, b"x") for sequence in sequences]
    for number, each in enumerate(messages, start=1):
        each.metadata.sequence.consumer = number
        each.metadata.num_pending = 0

    async def deliver(limit: int, timeout: float) -> list[Any]:
        return messages

    async def stream(*asked: Any) -> Any:
        return SimpleNamespace(state=SimpleNamespace(first_seq=first_of_stream, last_seq=sequences[-1]))

    monkeypatch.setattr(nats_source, "stream_named", stream)
    fetcher = MessageFetcher(Servers.of(URL, {}), "s", None, MessageDecoder("s", "bytes", None))
    fetcher._position = position
    fetcher._pull = SimpleNamespace(fetch=deliver)
    return asyncio.run(fetcher._fetch(None, 100))  # type: ignore[arg-type]


def test_messages_that_are_dropped_while_a_batch_is_sent_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OperationsError, match="dropped messages before they were read") as error:
        fetched_behind(5, 6, 7, 91, 92, first_of_stream=91, monkeypatch=monkeypatch)
    assert "we are behind 7" in error.value.in_one_line


def test_messages_may_be_dropped_when_they_were_read(monkeypatch: pytest.MonkeyPatch) -> None:
    fetched = fetched_behind(5, 6, 7, 8, 10, first_of_stream=8, monkeypatch=monkeypatch)
    assert fetched.position == 10


def test_what_is_missing_may_be_missing_anywhere_in_a_batch() -> None:
    batches = [[6, 7, 8], [6, 8, 10], [9, 10]]
    assert [before_gap(5, [message(sequence, b"") for sequence in batch]) for batch in batches] == [8, 6, 5]

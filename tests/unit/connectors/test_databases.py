"""What PostgreSQL and MariaDB connectors refuse, call themselves and decode, without a server."""

from __future__ import annotations

import pickle
import struct
from collections import namedtuple
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec
import pyarrow as pa
import pytest

from cutwater.batches import ObjectBatch
from cutwater.connectors import sinks, sources
from cutwater.connectors.bases.records import columns_of, tuples_of
from cutwater.connectors.bases.two_phase import Transaction, decode_transaction, owner_of, transaction_named
from cutwater.connectors.contract import Delivery
from cutwater.connectors.mariadb.inserting import kept, rows_in
from cutwater.connectors.mariadb.prepared import xid_of
from cutwater.connectors.postgres import log_reader
from cutwater.connectors.postgres.copying import CSV, TEXT, encoding_of
from cutwater.connectors.postgres.pgoutput import Began, Changed, Committed, Decoder
from cutwater.connectors.postgres.replication import Keepalive, lsn_of, text_of
from cutwater.errors import ConfigurationError, SchemaError, SnapshotDamagedError

DSN = "postgresql://user:secret@host:1234/shop"
URL = "mysql://user:secret@host:1234/shop"


# ---------------------------------------------------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: sinks.postgres(DSN, ""), "table must be"),
        (lambda: sinks.postgres("secret and no string", "t"), "no connection string"),
        (lambda: sinks.postgres(DSN, "t", delivery="twice"), "delivery 'twice' is unknown"),
        (lambda: sinks.postgres(DSN, "t", delivery="upsert"), "key is missing"),
        (lambda: sinks.postgres(DSN, "t", key=("id",)), "key has no use"),
        (lambda: sinks.postgres(DSN, "t", columns="id"), "columns must be a sequence"),
        (lambda: sinks.postgres(DSN, "t", columns=("id", "id")), "columns names something twice"),
        (lambda: sinks.mariadb("http://user:secret@host/shop", "t"), "url is no address"),
        (lambda: sinks.mariadb("mysql://user:secret@host", "t"), "url is no address"),
        (lambda: sources.postgres(DSN, order_by="id"), "either a table or a query"),
        (lambda: sources.postgres(DSN, "t", order_by=()), "order_by is missing"),
        (lambda: sources.postgres(DSN, "t", order_by="id", poll=1), "poll has no unit"),
        (lambda: sources.postgres_changes(DSN, tables=("t",), slot="No-Slot"), "slot 'No-Slot' is no name"),
        (lambda: sources.postgres_changes(DSN, slot="slot"), "nothing says whose changes"),
    ],
)
def test_what_makes_no_sense_is_refused_without_the_password(make, problem):
    with pytest.raises(ConfigurationError, match=problem) as raised:
        make()
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("connector", "name"),
    [
        (sinks.postgres(DSN, "t"), "postgres(host:1234/shop/t)"),
        (sinks.mariadb(URL, "t"), "mariadb(host:1234/shop/t)"),
        (sources.postgres(DSN, "t", order_by="id"), "postgres(host:1234/shop/t)"),
        (sources.postgres_changes(DSN, tables=("t",), slot="s"), "postgres_changes(host:1234/shop, slot s)"),
    ],
)
def test_a_connector_travels_and_its_name_has_no_password(connector, name):
    assert pickle.loads(pickle.dumps(connector)).name == name


@pytest.mark.parametrize(
    "make", [lambda **options: sinks.postgres(DSN, "t", **options), lambda **o: sinks.mariadb(URL, "t", **o)]
)
def test_a_sink_says_how_it_delivers(make):
    found = [make().delivery, make(delivery="upsert", key=("id",)).delivery, make(delivery="at_least_once").delivery]
    assert found == [Delivery.TRANSACTIONAL, Delivery.IDEMPOTENT, Delivery.PLAIN]


# ------------------------------------------------------------------------------------------------------ transactions


def test_a_transaction_is_known_by_its_name():
    transaction = Transaction(owner_of(job_id="j", uid="u", run="r"), attempt=3, subtask=1, number=12)
    assert transaction_named(transaction.name) == transaction


@pytest.mark.parametrize(
    "name", ["", "cutwater-", "other-ab-1-2-3", "cutwater-ab-1-2", "cutwater-ab-1-2-3-4", "cutwater-AB-1-2-3"]
)
def test_names_of_others_are_not_ours(name):
    assert transaction_named(name) is None


def test_owners_differ_by_job_sink_and_run():
    names = [("a", "b", "c"), ("ab", "", "c"), ("a", "bc", ""), ("a", "b", "d")]
    assert len({owner_of(job_id=job, uid=uid, run=run) for job, uid, run in names}) == 4


def test_both_parts_of_an_xa_name_fit():
    name = Transaction("f" * 24, attempt=2**40, subtask=2**20, number=2**40).name
    assert all(len(part.strip("'")) <= 64 for part in xid_of(name).split(","))


@pytest.mark.parametrize("committable", [b"", b"\xc1", msgspec.msgpack.encode(("'; DROP TABLE", 1, 2, 3))])
def test_a_committable_that_no_sink_made_is_refused(committable):
    with pytest.raises(SnapshotDamagedError):
        decode_transaction(committable)


def test_kept_rows_are_read_whatever_the_pieces():
    batches = [[(1, "a")], [(2, None), (3, datetime(2026, 1, 1, tzinfo=UTC))]]
    data = b"".join(kept(rows, owner="test") for rows in batches)
    assert list(rows_in(data[index : index + 7] for index in range(0, len(data), 7))) == batches


# ----------------------------------------------------------------------------------------------------------- records


Named = namedtuple("Named", ["id", "name"])


@dataclass
class Data:
    id: int
    name: str


class Struct(msgspec.Struct):
    id: int
    name: str


@pytest.mark.parametrize(
    "batch",
    [
        ObjectBatch([{"id": 1, "name": "one"}]),
        ObjectBatch([Named(1, "one")]),
        ObjectBatch([Data(1, "one")]),
        ObjectBatch([Struct(1, "one")]),
        pa.RecordBatch.from_pylist([{"id": 1, "name": "one"}]),
    ],
)
def test_records_of_all_kinds_have_columns(batch):
    assert (columns_of(batch), tuples_of(batch, ("name", "id")), tuples_of(batch, ("id",))) == (
        ("id", "name"),
        [("one", 1)],
        [(1,)],
    )


def test_plain_tuples_need_as_many_columns():
    assert tuples_of(ObjectBatch([(1, 2)]), ("a", "b")) == [(1, 2)]
    with pytest.raises(SchemaError, match="doesn't have the columns a, b"):
        tuples_of(ObjectBatch([(1, 2), (1,)]), ("a", "b"))


def test_a_record_without_a_column_is_shown():
    with pytest.raises(SchemaError) as raised:
        tuples_of(ObjectBatch([{"id": 1}, {"number": 2}]), ("id",))
    assert "{'number': 2}" in raised.value.detail


def test_a_plain_value_has_no_columns():
    with pytest.raises(SchemaError, match="has no columns"):
        columns_of(ObjectBatch([7]))


def test_typed_rows_go_as_csv_unless_a_column_is_nested():
    plain, nested = pa.field("a", pa.int64()), pa.field("b", pa.list_(pa.int64()))
    found = [
        encoding_of(pa.RecordBatch.from_pylist([], pa.schema(fields)), [field.name for field in fields])
        for fields in ([plain], [plain, nested])
    ]
    assert found == [CSV, TEXT]


# ---------------------------------------------------------------------------------------------------------- pgoutput


def text(value: str) -> bytes:
    data = value.encode()
    return b"t" + struct.pack(">I", len(data)) + data


RELATION = (
    b"R" + struct.pack(">I", 7) + b"shop\0orders\0d" + struct.pack(">H", 2)
    + b"\x01id\0" + struct.pack(">Ii", 20, -1) + b"\x00name\0" + struct.pack(">Ii", 25, -1)
)  # fmt: skip
WIDTH = struct.pack(">H", 2)


@pytest.fixture
def decode():
    decoder = Decoder({20: int, 25: bytes.decode}.__getitem__)
    assert decoder.decode(memoryview(RELATION)) == []
    return lambda data: decoder.decode(memoryview(data))


def test_a_transaction_begins_and_ends(decode):
    second_of_2000 = struct.pack(">QqI", 5, 1_000_000, 99)
    found = decode(b"B" + second_of_2000) + decode(b"C" + struct.pack(">BQQq", 0, 5, 8, 1_000_000))
    assert found == [Began(5, datetime(2000, 1, 1, 0, 0, 1, tzinfo=UTC), 99), Committed(8)]


def test_an_inserted_row_has_its_columns(decode):
    data = b"I" + struct.pack(">I", 7) + b"N" + WIDTH + text("1") + b"n"
    assert decode(data) == [Changed("insert", "shop.orders", None, {"id": 1, "name": None})]


def test_a_deleted_row_has_its_key_only(decode):
    data = b"D" + struct.pack(">I", 7) + b"K" + WIDTH + text("1") + b"n"
    assert decode(data) == [Changed("delete", "shop.orders", {"id": 1}, None)]


def test_a_large_value_that_was_not_touched_comes_from_before_or_is_missing(decode):
    old = b"O" + WIDTH + text("1") + text("ü")
    new = b"N" + WIDTH + text("2") + b"u"
    head = b"U" + struct.pack(">I", 7)
    assert [*decode(head + old + new), *decode(head + new)] == [
        Changed("update", "shop.orders", {"id": 1, "name": "ü"}, {"id": 2, "name": "ü"}),
        Changed("update", "shop.orders", None, {"id": 2}),
    ]


def test_a_truncated_table_is_one_change(decode):
    assert decode(b"T" + struct.pack(">IBI", 1, 0, 7)) == [Changed("truncate", "shop.orders", None, None)]


class Scripted:
    """A replication connection that says what it was told to."""

    def __init__(self, messages):
        self._messages = messages

    def kept_from(self, slot):
        return 5

    def start(self, slot, publication, lsn):
        pass

    def receive(self, wait_seconds):
        return self._messages.pop(0) if self._messages else None

    def close(self):
        pass


def inserted(number: int) -> bytes:
    return b"I" + struct.pack(">I", 7) + b"N" + WIDTH + text(str(number)) + b"n"


def fetched_from(monkeypatch, messages, position):
    """The ids of the changes, and the position behind them."""
    script = [each if isinstance(each, Keepalive) else memoryview(each) for each in messages]
    monkeypatch.setattr(log_reader, "ReplicationConnection", lambda dsn, title: Scripted(script))
    monkeypatch.setattr(log_reader, "loader_of", {20: int, 25: bytes.decode}.__getitem__)
    log = log_reader.ChangeLog(DSN, "host", "slot", "publication")
    fetcher = log_reader.ChangeFetcher(log, None, reads_tables=False)
    fetcher.connect(position)
    fetched = fetcher.fetch(10)
    return [change.after["id"] for change in fetched.batch.values], fetched.position


BEGIN = b"B" + struct.pack(">QqI", 30, 0, 99)
COMMIT = b"C" + struct.pack(">BQQq", 0, 30, 33, 0)


def test_a_position_in_a_transaction_holds_when_the_server_says_first_how_far_it_is(monkeypatch):
    messages = [Keepalive(20), BEGIN, RELATION, inserted(1), inserted(2), inserted(3)]
    assert fetched_from(monkeypatch, messages, [10, 2]) == ([3], [10, 3])


def test_a_whole_transaction_moves_the_position_behind_it(monkeypatch):
    messages = [Keepalive(20), BEGIN, RELATION, inserted(1), COMMIT, Keepalive(40)]
    assert fetched_from(monkeypatch, messages, None) == ([1], [40, 0])


def test_positions_in_the_log_are_read_and_written():
    assert (lsn_of("16/B374D848"), text_of(0x16_B374D848)) == (0x16_B374D848, "16/B374D848")

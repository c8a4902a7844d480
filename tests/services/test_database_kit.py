"""The kit kills slots, drivers and servers: PostgreSQL and MariaDB get and give every record exactly once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import psycopg
import pyarrow as pa
import pytest

import cutwater as cw
from cutwater.connectors.contract import Sink, Source
from cutwater.graph.guarantees import Guarantee
from cutwater.testing.connectors import ALL, Fault, SinkSubject, SourceSubject, check_sink, check_source

from .amounts import RECORDS
from .two_phase import MariaSubject, PostgresSubject, Subject

SINK_FAULTS = [fault for fault in ALL if fault is not Fault.POISON]
#: Where the two-phase commit is not what is tested.
FEWER_FAULTS = [Fault.SLOTS_KILLED, Fault.SERVER_KILLED]
SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])


@pytest.fixture(params=["postgres", "mariadb"])
def database(request: pytest.FixtureRequest) -> Subject:
    server = request.getfixturevalue(request.param)
    return PostgresSubject(server) if request.param == "postgres" else MariaSubject(server)


class RowsWritten(SinkSubject):
    def __init__(self, database: Subject, *, is_typed: bool = False, **options: Any) -> None:
        self.database = database
        self.server = database.server
        self.schema = SCHEMA if is_typed else None
        self.options = options

    def sink(self) -> Sink:
        return self.database.sink(**self.options)

    @staticmethod
    def record(number: int) -> Any:
        return {"id": number, "name": f"number {number}"}

    def received(self) -> Sequence[int]:
        return self.database.ids()

    def pending(self) -> Sequence[str]:
        return ["a prepared transaction"] * self.database.prepared()

    def clear(self) -> None:
        self.database.reset()
        if "key" in self.options:
            self.database.query("CREATE UNIQUE INDEX numbers_id ON numbers (id)")


class RowsRead(SourceSubject):
    def __init__(self, database: Subject) -> None:
        self.database = database
        self.server = database.server

    def fill(self, numbers: Iterable[int]) -> None:
        self.database.reset()
        self.insert(numbers)

    def insert(self, numbers: Iterable[int]) -> None:
        """In transactions of several sizes."""
        rows = list(numbers)
        with psycopg.connect(self.url, autocommit=True) as connection, connection.cursor() as cursor:
            begin, size = 0, 1
            while begin < len(rows):
                with cursor.copy("COPY numbers (id) FROM STDIN") as copy:
                    for number in rows[begin : begin + size]:
                        copy.write_row((number,))
                begin, size = begin + size, min(size * 3, 20_000)

    @property
    def url(self) -> str:
        assert isinstance(self.database, PostgresSubject)
        return self.database.server.url

    def source(self) -> Source:
        return cw.sources.postgres(self.url, "numbers", order_by="id", bounded=True)

    @staticmethod
    def number_of(record: Any) -> int:
        return int(record["id"])


class ChangesRead(RowsRead):
    def fill(self, numbers: Iterable[int]) -> None:
        drop_slot(self.database)
        self.database.reset()
        self.source().check()
        self.insert(numbers)

    def source(self) -> Source:
        return cw.sources.postgres_changes(
            self.url, tables=("numbers",), slot="cutwater_kit", snapshot=False, bounded=True
        )

    @staticmethod
    def number_of(record: Any) -> int:
        return int(record.after["id"])


class SnapshotRead(ChangesRead):
    """Half of the rows are older than the slot; the log has the others, too."""

    def fill(self, numbers: Iterable[int]) -> None:
        rows = list(numbers)
        drop_slot(self.database)
        self.database.reset()
        self.database.query("ALTER TABLE numbers ADD PRIMARY KEY (id)")
        self.insert(rows[::2])
        self.source().check()
        self.insert(rows[1::2])

    def source(self) -> Source:
        return cw.sources.postgres_changes(self.url, tables=("numbers",), slot="cutwater_kit", bounded=True)


def drop_slot(database: Subject) -> None:
    database.query("DROP PUBLICATION IF EXISTS cutwater_kit")
    database.query(
        "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = 'cutwater_kit' AND active"
    )
    for _ in range(100):
        with suppress(psycopg.errors.ObjectInUse):
            database.query(
                "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = 'cutwater_kit'"
            )
            return


@pytest.mark.parametrize("fault", SINK_FAULTS)
def test_prepared_transactions_are_exactly_once(spark: Any, database: Subject, fault: Fault) -> None:
    report = check_sink(RowsWritten(database), records=RECORDS, faults=[fault], spark=spark)
    print(report)  # noqa: T201 — for people who want to see the table: pytest -s
    assert report.guarantee is Guarantee.EXACTLY_ONCE


@pytest.mark.parametrize("fault", [Fault.KILLED_WHEN_PREPARED])
def test_prepared_transactions_of_typed_rows_are_exactly_once(spark: Any, database: Subject, fault: Fault) -> None:
    report = check_sink(RowsWritten(database, is_typed=True), records=RECORDS, faults=[fault], spark=spark)
    print(report)  # noqa: T201
    assert report.guarantee is Guarantee.EXACTLY_ONCE


@pytest.mark.parametrize("fault", FEWER_FAULTS)
def test_upserts_are_exactly_once_in_effect(spark: Any, database: Subject, fault: Fault) -> None:
    report = check_sink(
        RowsWritten(database, delivery="upsert", key=("id",)), records=RECORDS, faults=[fault], spark=spark
    )
    print(report)  # noqa: T201
    assert report.guarantee is Guarantee.EXACTLY_ONCE


@pytest.mark.trials
@pytest.mark.parametrize("fault", FEWER_FAULTS)
def test_plain_inserts_lose_nothing(spark: Any, database: Subject, fault: Fault) -> None:
    report = check_sink(RowsWritten(database, delivery="at_least_once"), records=RECORDS, faults=[fault], spark=spark)
    print(report)  # noqa: T201
    assert report.guarantee is Guarantee.AT_LEAST_ONCE


@pytest.mark.parametrize("fault", SINK_FAULTS)
def test_changes_are_read_exactly_once(spark: Any, postgres: Any, fault: Fault) -> None:
    database = PostgresSubject(postgres)
    try:
        report = check_source(ChangesRead(database), records=RECORDS, faults=[fault], spark=spark)
        print(report)  # noqa: T201
        assert report.guarantee is Guarantee.EXACTLY_ONCE
    finally:
        drop_slot(database)


@pytest.mark.parametrize("fault", [Fault.SLOTS_KILLED, Fault.DRIVER_KILLED, Fault.SAVEPOINT])
def test_rows_and_changes_are_read_exactly_once(spark: Any, postgres: Any, fault: Fault) -> None:
    database = PostgresSubject(postgres)
    try:
        report = check_source(SnapshotRead(database), records=RECORDS, faults=[fault], spark=spark)
        print(report)  # noqa: T201
        assert report.guarantee is Guarantee.EXACTLY_ONCE
    finally:
        drop_slot(database)


@pytest.mark.parametrize("fault", FEWER_FAULTS)
def test_rows_are_read_exactly_once(spark: Any, postgres: Any, fault: Fault) -> None:
    report = check_source(RowsRead(PostgresSubject(postgres)), records=RECORDS, faults=[fault], spark=spark)
    print(report)  # noqa: T201
    assert report.guarantee is Guarantee.EXACTLY_ONCE

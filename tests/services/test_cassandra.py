from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

import pytest
from servers.cassandra import Cassandra

import cutwater as cw
from cutwater.batches import ObjectBatch
from cutwater.connectors.contract import Sink, WriterContext
from cutwater.connectors.failures import PeerError
from cutwater.errors import ConfigurationError, SchemaError
from cutwater.graph.guarantees import Guarantee
from cutwater.protocol.ids import AttemptNumber, CheckpointId
from cutwater.testing.connectors import ALL, Fault, SinkSubject, check_sink

from .amounts import RECORDS

KEYSPACE = "cutwater"


class Outside:
    """A table of its own, without our connector."""

    def __init__(self, server: Cassandra, columns: str = "n int primary key, v text") -> None:
        self.server = server
        self.table = f"t{uuid4().hex}"
        self.execute(
            f"create keyspace if not exists {KEYSPACE} "
            "with replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
        )
        self.execute(f"create table {KEYSPACE}.{self.table} ({columns})")

    def execute(self, query: str) -> list[Any]:
        from cassandra.cluster import Cluster

        with Cluster(["127.0.0.1"], port=self.server.port) as cluster:
            return list(cluster.connect().execute(query, timeout=60))

    def rows(self) -> list[Any]:
        return self.execute(f"select * from {KEYSPACE}.{self.table}")

    def sink(self, **options: Any) -> Sink:
        return cw.sinks.cassandra("127.0.0.1", KEYSPACE, self.table, port=self.server.port, **options)

    def write(self, values: list[Any], **options: Any) -> None:
        writer = self.sink(**options).writer(WriterContext("j", "u", 0, 1, AttemptNumber(0)))
        try:
            writer.write(ObjectBatch(values))
            writer.prepare(CheckpointId(1)).result(60)  # type: ignore[union-attr]
        finally:
            writer.close()


class RowsWritten(SinkSubject):
    def __init__(self, server: Cassandra) -> None:
        self.server = server
        self.clear()

    def clear(self) -> None:
        self.outside = Outside(self.server)

    def sink(self) -> Sink:
        return self.outside.sink()

    @staticmethod
    def record(number: int) -> Any:
        return {"n": number, "v": f"value {number}"}

    def received(self) -> Sequence[int]:
        return [row.n for row in self.outside.rows()]


@pytest.mark.parametrize("fault", [fault for fault in ALL if fault is not Fault.POISON])
def test_rows_are_written_exactly_once_in_effect(spark: Any, cassandra: Cassandra, fault: Fault) -> None:
    report = check_sink(RowsWritten(cassandra), records=RECORDS, faults=[fault], spark=spark)
    print(report)  # noqa: T201 — for people who want to see the table: pytest -s
    assert report.guarantee is Guarantee.EXACTLY_ONCE


def test_the_last_record_of_a_key_wins(cassandra: Cassandra) -> None:
    outside = Outside(cassandra)
    outside.write([{"n": 1, "v": str(number)} for number in range(5000)])
    assert [(row.n, row.v) for row in outside.rows()] == [(1, "4999")]


def test_only_the_named_columns_are_written(cassandra: Cassandra) -> None:
    outside = Outside(cassandra)
    outside.write([{"n": 1, "v": "kept", "other": 3}], columns=("n", "v"))
    assert [(row.n, row.v) for row in outside.rows()] == [(1, "kept")]


def test_a_record_that_does_not_fit_fails_the_writer(cassandra: Cassandra) -> None:
    outside = Outside(cassandra)
    with pytest.raises(SchemaError, match="doesn't fit the columns"):
        outside.write([{"n": "one", "v": "x"}])


def test_wrong_addresses_and_tables_are_told_before_the_job_starts(cassandra: Cassandra) -> None:
    outside = Outside(cassandra)
    counters = Outside(cassandra, "n int primary key, c counter")
    here = ("127.0.0.1", KEYSPACE)
    port = cassandra.port
    wrong = {
        "Cassandra at 127.0.0.1 can't be reached": cw.sinks.cassandra(*here, outside.table, port=1),
        "nix": cw.sinks.cassandra("127.0.0.1", "nix", outside.table, port=port),
        f"has no table {KEYSPACE}.nix": cw.sinks.cassandra(*here, "nix", port=port),
        "has counters": counters.sink(),
        "can't be written": outside.sink(columns=("n", "w")),
    }
    for message, sink in wrong.items():
        with pytest.raises((ConfigurationError, PeerError), match=message) as raised:
            sink.check()
        assert raised.value.in_one_line

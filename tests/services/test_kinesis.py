from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterable, Sequence
from typing import Any
from uuid import uuid4

import boto3
import pytest
from servers.kinesis import Kinesis

import cutwater as cw
from cutwater.batches import ObjectBatch
from cutwater.connectors.contract import Discovery, ReaderContext, Sink, Source, WriterContext
from cutwater.connectors.failures import PeerError
from cutwater.errors import ConfigurationError
from cutwater.graph.guarantees import Guarantee
from cutwater.protocol.ids import AttemptNumber, CheckpointId
from cutwater.protocol.known_origins import KnownOrigins
from cutwater.testing.connectors import ALL, Fault, SinkSubject, SourceSubject, check_sink, check_source

from .amounts import RECORDS
from .rehearsals import Rehearsal


class Outside:
    """A stream of its own, without our connector."""

    def __init__(self, server: Kinesis, *, shards: int = 2) -> None:
        self.server = server
        self.name = f"test-{uuid4().hex}"
        self.client = boto3.client("kinesis", endpoint_url=server.endpoint, **server.credentials)
        self.client.create_stream(StreamName=self.name, ShardCount=shards)
        self.wait_until_active()

    @property
    def settings(self) -> dict[str, Any]:
        return {"stream": self.name, "endpoint": self.server.endpoint, "options": dict(self.server.credentials)}

    def put(self, numbers: Iterable[int]) -> None:
        values = list(numbers)
        for start in range(0, len(values), 500):
            chunk = values[start : start + 500]
            entries = [{"Data": str(each).encode(), "PartitionKey": str(each % 100)} for each in chunk]
            assert self.client.put_records(StreamName=self.name, Records=entries)["FailedRecordCount"] == 0

    def open_shards(self) -> list[dict[str, Any]]:
        """By their keys."""
        shards = self.client.list_shards(StreamName=self.name)["Shards"]
        still_open = [shard for shard in shards if "EndingSequenceNumber" not in shard["SequenceNumberRange"]]
        return sorted(still_open, key=lambda shard: int(shard["HashKeyRange"]["StartingHashKey"]))

    def split(self) -> None:
        keys = self.open_shards()[0]["HashKeyRange"]
        middle = (int(keys["StartingHashKey"]) + int(keys["EndingHashKey"])) // 2
        shard = self.open_shards()[0]["ShardId"]
        self.client.split_shard(StreamName=self.name, ShardToSplit=shard, NewStartingHashKey=str(middle))
        self.wait_until_active()

    def merge(self) -> None:
        first, second = self.open_shards()[:2]
        self.client.merge_shards(
            StreamName=self.name, ShardToMerge=first["ShardId"], AdjacentShardToMerge=second["ShardId"]
        )
        self.wait_until_active()

    def wait_until_active(self) -> None:
        deadline = time.monotonic() + 30
        while self.client.describe_stream(StreamName=self.name)["StreamDescription"]["StreamStatus"] != "ACTIVE":
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def numbers(self) -> list[int]:
        found = []
        for shard in self.client.list_shards(StreamName=self.name)["Shards"]:
            iterator = self.client.get_shard_iterator(
                StreamName=self.name, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
            )["ShardIterator"]
            while True:
                answer = self.client.get_records(ShardIterator=iterator, Limit=10_000)
                found += [int(record["Data"]) for record in answer["Records"]]
                iterator = answer.get("NextShardIterator")
                if not answer["Records"] or iterator is None:
                    break
        return found


class StreamRead(SourceSubject):
    """Shards are split and merged before the job starts, and again while it runs."""

    bounded = False

    def __init__(self, server: Kinesis) -> None:
        self.server = server
        self._outside: Outside | None = None
        self._resharding: threading.Thread | None = None

    @property
    def outside(self) -> Outside:
        self._outside = self._outside or Outside(self.server)
        return self._outside

    def fill(self, numbers: Iterable[int]) -> None:
        self.wait()
        self._outside = None
        values = list(numbers)
        third = len(values) // 3
        self.outside.put(values[:third])
        self.outside.split()
        self.outside.put(values[third : 2 * third])
        self.outside.merge()
        self._resharding = threading.Thread(target=self._reshard, args=(values[2 * third :],))
        self._resharding.start()

    def _reshard(self, values: Sequence[int]) -> None:
        """The server may be killed at any moment: what isn't known to be done is not repeated, only tried again."""
        time.sleep(1)
        self.outside.split()
        self.outside.put(values)
        self.outside.merge()

    def wait(self) -> None:
        if self._resharding is not None:
            self._resharding.join()

    def source(self) -> Source:
        return cw.sources.kinesis(**self.outside.settings, value="text", discovery_seconds=0.5)

    @staticmethod
    def number_of(record: Any) -> int:
        return int(record)

    def poison(self) -> None:
        self.wait()
        self.outside.client.put_record(StreamName=self.outside.name, Data=b"\xff", PartitionKey="0")


class StreamReadFromAKilledServer(StreamRead):
    """All is there before the server is killed: nobody knows what a client's call did that broke off."""

    def fill(self, numbers: Iterable[int]) -> None:
        super().fill(numbers)
        self.wait()


@pytest.mark.parametrize("fault", ALL)
def test_a_stream_is_read_exactly_once(spark: Any, kinesis: Kinesis, fault: Fault) -> None:
    subject = StreamReadFromAKilledServer(kinesis) if fault.needs_server else StreamRead(kinesis)
    report = check_source(subject, records=RECORDS, faults=[fault], spark=spark)
    print(report)  # noqa: T201 — for people who want to see the table: pytest -s
    assert report.guarantee is Guarantee.EXACTLY_ONCE


class Put(SinkSubject):
    def __init__(self, server: Kinesis) -> None:
        self.server = server
        self.clear()

    def clear(self) -> None:
        self.outside = Outside(self.server)

    def sink(self) -> Sink:
        return cw.sinks.kinesis(**self.outside.settings)

    @staticmethod
    def record(number: int) -> Any:
        return str(number)

    def received(self) -> Sequence[int]:
        return self.outside.numbers()


@pytest.mark.parametrize("fault", [Fault.SLOTS_KILLED, Fault.SERVER_KILLED])
def test_records_are_put_at_least_once(spark: Any, kinesis: Kinesis, fault: Fault) -> None:
    report = check_sink(Put(kinesis), records=RECORDS, faults=[fault], spark=spark)
    print(report)  # noqa: T201
    assert report.guarantee is Guarantee.AT_LEAST_ONCE


def test_a_shard_is_read_exactly_once_though_attempts_fail_and_the_server_is_killed(kinesis: Kinesis) -> None:
    outside = Outside(kinesis, shards=1)
    outside.put(range(20_000))
    source = cw.sources.kinesis(**outside.settings, value="text")
    rehearsal = Rehearsal(source, source.discover(1).splits[0], random.Random(1))
    kill = threading.Timer(0.3, kinesis.restart)
    kill.start()
    rehearsal.read(lambda records: len(records) >= 20_000, failures=5)
    kill.join()
    assert rehearsal.records == [str(number) for number in range(20_000)]


def test_shards_come_after_those_that_they_were_made_of(kinesis: Kinesis) -> None:
    outside = Outside(kinesis)
    outside.split()
    outside.merge()
    source = cw.sources.kinesis(**outside.settings)
    found = {split.id[-1]: tuple(parent[-1] for parent in split.after) for split in source.discover(1).splits}
    assert found == {"0": (), "1": (), "2": ("0",), "3": ("0",), "4": ("2", "3")}


def test_a_look_lists_what_is_not_known_yet(kinesis: Kinesis) -> None:
    outside = Outside(kinesis)
    source = cw.sources.kinesis(**outside.settings)
    first = source.discover_new(1, KnownOrigins())
    outside.split()
    second = source.discover_new(1, KnownOrigins.of(split.id for split in first.splits), first.state)
    assert [split.id[-1] for split in second.splits] == ["2", "3"]


def test_a_look_at_a_server_that_is_gone_finds_nothing_new(kinesis: Kinesis) -> None:
    outside = Outside(kinesis)
    source = cw.sources.kinesis(**outside.settings)
    first = source.discover_new(1, KnownOrigins())
    kinesis.kill()
    second = source.discover_new(1, KnownOrigins.of(split.id for split in first.splits), first.state)
    kinesis.restart()
    assert second == Discovery((), complete=False, state=first.state)


def test_a_closed_shard_ends(kinesis: Kinesis) -> None:
    outside = Outside(kinesis, shards=1)
    outside.put(range(10))
    outside.split()
    source = cw.sources.kinesis(**outside.settings, value="text")
    reader = source.reader(source.discover(1).splits[0], None, ReaderContext())
    got: list[str] = []
    deadline = time.monotonic() + 30
    while not reader.finished and time.monotonic() < deadline:
        batch = reader.read(4, 0.0)
        got += [] if batch is None else batch.values  # type: ignore[union-attr]
        time.sleep(0.01)
    reader.close()
    assert (got, reader.finished) == ([str(number) for number in range(10)], True)


def test_latest_begins_when_the_source_is_made(kinesis: Kinesis) -> None:
    outside = Outside(kinesis, shards=1)
    outside.put(range(10))
    time.sleep(1.1)  # timestamps of records are whole seconds here
    source = cw.sources.kinesis(**outside.settings, start="latest", value="text")
    outside.put(range(10, 12))
    rehearsal = Rehearsal(source, source.discover(1).splits[0], random.Random(2))
    rehearsal.read(lambda records: len(records) >= 2, failures=0)
    assert rehearsal.records == ["10", "11"]


def test_an_expired_iterator_is_renewed(kinesis: Kinesis, monkeypatch: pytest.MonkeyPatch) -> None:
    from cutwater.connectors.bases.decoding import decoder_of
    from cutwater.connectors.kinesis.client import IteratorExpired, Stream
    from cutwater.connectors.kinesis.source import ShardFetcher

    outside = Outside(kinesis, shards=1)
    outside.put(range(2))
    stream = Stream(outside.name, kinesis.endpoint, None, kinesis.credentials)
    fetcher = ShardFetcher(stream.connect(), stream, "shardId-000000000000", None, decoder_of("text"))
    fetcher.connect(None)
    assert fetcher.fetch(1) is not None

    def expire(**_: Any) -> None:
        monkeypatch.undo()
        raise IteratorExpired("expired")

    fetcher._records.clear()
    monkeypatch.setattr(fetcher._client, "get_records", expire)
    assert fetcher.fetch(1) is None
    fetched = fetcher.fetch(1)
    assert fetched is not None
    assert fetched.batch == ObjectBatch(["1"])


def test_records_of_one_key_stay_in_order(kinesis: Kinesis) -> None:
    outside = Outside(kinesis)
    sink = cw.sinks.kinesis(**outside.settings, partition_key=lambda value: "one")
    writer = sink.writer(WriterContext("j", "u", 0, 1, AttemptNumber(0)))
    writer.write(ObjectBatch([str(number) for number in range(1200)]))
    writer.prepare(CheckpointId(1)).result(30)  # type: ignore[union-attr]
    writer.close()
    assert outside.numbers() == list(range(1200))


def test_wrong_addresses_and_names_are_told_before_the_job_starts(kinesis: Kinesis) -> None:
    outside = Outside(kinesis)
    credentials = {**kinesis.credentials, "aws_secret_access_key": "hidden"}
    wrong = {
        "Kinesis at http://127.0.0.1:1 can't be reached": {"stream": outside.name, "endpoint": "http://127.0.0.1:1"},
        f'Kinesis at {kinesis.endpoint} has no stream "nix"': {"stream": "nix", "endpoint": kinesis.endpoint},
    }
    for message, settings in wrong.items():
        for connector in (cw.sources.kinesis, cw.sinks.kinesis):
            with pytest.raises((ConfigurationError, PeerError), match=message) as raised:
                connector(**settings, options=credentials).check()
            assert "hidden" not in str(raised.value)

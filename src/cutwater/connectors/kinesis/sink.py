"""How do records get into a Kinesis stream, at least once?"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any

from cutwater.batches import Batch, rows_of
from cutwater.connectors.bases.payloads import encoded
from cutwater.connectors.bases.sending import Sender, SendingWriter
from cutwater.connectors.contract import Sink, SinkWriter, WriterContext
from cutwater.connectors.failures import PeerError, user_function_failed
from cutwater.connectors.kinesis.client import Stream, Throttled
from cutwater.connectors.settings import check_callable
from cutwater.errors import ConfigurationError

#: What one call takes.
RECORDS_PER_CALL = 500
BYTES_PER_CALL = 4 << 20
TRIES_MAX = 20
FIRST_PAUSE_SECONDS = 0.05
PAUSE_SECONDS_MAX = 2.0

PartitionKey = Callable[[Any], str]


def kinesis(
    stream: str,
    *,
    partition_key: PartitionKey | None = None,
    endpoint: str | None = None,
    region: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> KinesisSink:
    """Puts each record into a stream: bytes as they are, text as UTF-8, everything else as JSON.

    At least once: a checkpoint completes when the server has taken what came before it; after a failure, and when the
    server refuses a part of what it was given, records are put again, and out of order.

    `partition_key`: a function of the record that returns a string; records of one key go to one shard. Left out, a
    digest of the record's bytes, which spreads them.
    `endpoint`, `region`: where the stream is; left out, as the environment tells boto3.
    `options`: of `boto3.client`, such as credentials and certificates.
    """
    if partition_key is not None:
        check_callable("partition_key", partition_key)
    return KinesisSink(Stream(stream, endpoint, region, dict(options or {})), partition_key)


class KinesisSink(Sink):
    def __init__(self, stream: Stream, partition_key: PartitionKey | None) -> None:
        self._stream = stream
        self._partition_key = partition_key

    @property
    def name(self) -> str:
        return f"kinesis({self._stream.name})"

    def check(self, *, restores: bool = False) -> None:
        self._stream.check()

    def writer(self, context: WriterContext) -> SinkWriter:
        return SendingWriter(self, KinesisSender(self._stream, self._partition_key), context)


class KinesisSender(Sender):
    """`send` returns when the server has taken everything, so there is nothing to settle."""

    def __init__(self, stream: Stream, partition_key: PartitionKey | None) -> None:
        self._stream = stream
        self._partition_key = partition_key
        self._client: Any = None

    def connect(self) -> None:
        self._client = self._stream.connect()

    def send(self, batch: Batch) -> None:
        data = encoded(batch)
        keys = map(_digest, data) if self._partition_key is None else map(self._key_of, rows_of(batch))
        entries = [{"Data": each, "PartitionKey": key} for each, key in zip(data, keys, strict=True)]
        for call in _calls(entries):
            self._put(call)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def _put(self, entries: Sequence[Mapping[str, Any]]) -> None:
        """Puts those again that the server did not take, because a shard had enough for this second."""
        pause_seconds = FIRST_PAUSE_SECONDS
        for _ in range(TRIES_MAX):
            entries, reason = self._put_once(entries)
            if not entries:
                return
            time.sleep(pause_seconds)
            pause_seconds = min(pause_seconds * 2, PAUSE_SECONDS_MAX)
        raise PeerError(
            f'stream "{self._stream.name}" does not take what it is given', detail=f"{len(entries)} records: {reason}"
        )

    def _put_once(self, entries: Sequence[Mapping[str, Any]]) -> tuple[Sequence[Mapping[str, Any]], str]:
        """What is left, and why."""
        try:
            with self._stream.telling():
                answer = self._client.put_records(StreamName=self._stream.name, Records=entries)
        except Throttled as error:
            return entries, error.in_one_line
        if not answer["FailedRecordCount"]:
            return (), ""
        failed = [(entry, each) for entry, each in zip(entries, answer["Records"], strict=True) if "ErrorCode" in each]
        return [entry for entry, _ in failed], f"{failed[0][1]['ErrorCode']}: {failed[0][1].get('ErrorMessage')}"

    def _key_of(self, row: Any) -> str:
        assert self._partition_key is not None
        try:
            key = self._partition_key(row)
        except Exception as error:
            raise user_function_failed("partition_key=", error, given=f"{row!r:.200}") from error
        if not isinstance(key, str) or not 0 < len(key) <= 256:
            raise ConfigurationError(
                "partition_key= must return a string of 1 to 256 characters",
                detail=f"it returned {key!r:.300} for {row!r:.200}",
            )
        return key


def _calls(entries: Sequence[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    """As many entries as one call takes."""
    call: list[Mapping[str, Any]] = []
    size = 0
    for entry in entries:
        entry_bytes = len(entry["Data"]) + len(entry["PartitionKey"])
        if call and (len(call) == RECORDS_PER_CALL or size + entry_bytes > BYTES_PER_CALL):
            yield call
            call, size = [], 0
        call.append(entry)
        size += entry_bytes
    if call:
        yield call


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=8).hexdigest()

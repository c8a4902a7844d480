"""How is a Redis stream read, so that its entries count once?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from cutwater.connectors.bases.fetching import FETCH_WAIT_SECONDS, Fetched, Fetcher, FetchingReader
from cutwater.connectors.contract import Discovery, ReaderContext, Source, SplitReader
from cutwater.connectors.redis.connection import Address
from cutwater.connectors.redis.entries import EntryDecoder, Value
from cutwater.connectors.redis.positions import Position, StreamState, advanced, check_nothing_lost, parsed, start_of
from cutwater.errors import ConfigurationError, OperationsError
from cutwater.protocol.splits import Split


def redis_stream(
    url: str,
    stream: str | Sequence[str],
    *,
    start: str = "earliest",
    value: Value = None,
    schema: pa.Schema | None = None,
    options: Mapping[str, Any] | None = None,
) -> RedisStreamSource:
    """A source of the entries of one or more Redis streams. Needs the extra `redis`, and Redis 7.0 or newer.

    Exactly once: the position is the id of the last entry that was read, and it is in the snapshot. There is no
    consumer group, and nothing is acknowledged. Entries that were trimmed (MAXLEN, MINID) before they were read are
    noticed: the job fails with a clear error. Entries that were deleted by their id (XDEL) are passed over. Each stream
    is read by one task. The streams must exist when the job starts, and never end.

    url: `redis://user:password@host:6379/0`, `rediss://…` for TLS, or `unix://…`.
    start: where a job that isn't restored begins: "earliest", "latest", or behind an id ("1700000000000-0").
    value: what a record is. None: a dict of all fields, as text. A name: the text of this field only. A function of the
        id and the dict of fields (both as they come: the id as text, names and values as bytes): what it returns.
    schema: records are typed, with a column for each field of this name; Arrow turns the text into the column's type,
        and a field that is missing is null.
    options: of `redis.Redis`, e.g. `{"ssl_ca_certs": "ca.pem", "password": "…"}`.
    """
    streams = (stream,) if isinstance(stream, str) else tuple(stream)
    if not streams or not all(isinstance(name, str) and name for name in streams) or len({*streams}) < len(streams):
        raise ConfigurationError("stream must be a name, or several that differ", detail=f"it is {stream!r}")
    if start not in ("earliest", "latest"):
        _check_id(start)
    if schema is not None and value is not None:
        raise ConfigurationError("schema= says what a record is: value= can't be given as well")
    return RedisStreamSource(Address(url, dict(options or {})), streams, start, value, schema)


def _check_id(start: str) -> None:
    try:
        parsed(start)
    except (ValueError, AttributeError):
        raise ConfigurationError(
            "start must be the id of an entry, 'earliest' or 'latest'", detail=f"it is {start!r}"
        ) from None


class RedisStreamSource(Source):
    """One split for each stream."""

    eager = True
    bounded = False
    can_tolerate = True

    def __init__(
        self, address: Address, streams: tuple[str, ...], start: str, value: Value, schema: pa.Schema | None
    ) -> None:
        self._address = address
        self._streams = streams
        self._start = start
        self._value = value
        self._schema = schema

    @property
    def name(self) -> str:
        return f"redis_stream({', '.join(self._streams)})"

    @property
    def schema(self) -> pa.Schema | None:
        return self._schema

    def check(self) -> None:
        self._address.check()
        self._states()

    def discover(self, parallelism: int) -> Discovery:
        """The start is part of the split: "latest" is the moment when the job started."""
        starts = [start_of(state, self._start) for state in self._states()]
        splits = (
            Split(stream, msgspec.msgpack.encode(start)) for stream, start in zip(self._streams, starts, strict=True)
        )
        return Discovery(tuple(splits), complete=True)

    def _states(self) -> list[StreamState]:
        with self._address.connect() as connection:
            return [_state(self._address, connection, stream) for stream in self._streams]

    def reader(self, split: Split, position: Any, context: ReaderContext) -> SplitReader:
        decoder = EntryDecoder(split.id, self._value, self._schema, tolerant=context.tolerant)
        fetcher = StreamFetcher(self._address, split.id, decoder)
        start = msgspec.msgpack.decode(split.payload) if position is None else position
        return FetchingReader(fetcher, start, context, name=f'source "redis_stream({split.id})"')


class StreamFetcher(Fetcher):
    """Reads behind an id; waits at the end of the stream."""

    def __init__(self, address: Address, stream: str, decoder: EntryDecoder) -> None:
        self._address = address
        self._stream = stream
        self._decoder = decoder
        self._connection: Any = None
        self._position = Position("")

    def connect(self, position: Any) -> None:
        self._position = msgspec.convert(position, Position)
        self._connection = self._address.connect()

    def fetch(self, limit: int) -> Fetched | None:
        state, entries = self._look(limit)
        next_id = entries[0][0].decode() if entries else None
        check_nothing_lost(self._stream, self._position, state, next_id)
        if not entries:
            self._wait()
            return None
        # One more than asked for: it tells whether what comes next is still there when we go on.
        following = entries.pop()[0].decode() if len(entries) > limit else None
        decoded = self._decoder.decode(entries)
        last_read = entries[-1][0].decode()
        self._position = advanced(self._position, state, last_read=last_read, rows=len(entries), next_id=following)
        count = self._position.count
        lag = None if count is None else state.added - count
        position = msgspec.to_builtins(self._position)
        return Fetched(position, decoded.batch, lag=lag, unreadable=decoded.unreadable)

    def _look(self, limit: int) -> tuple[StreamState, list[Any]]:
        """The stream and its entries behind the position, at one moment."""
        with self._address.telling():
            together = self._connection.pipeline(transaction=True)
            together.xinfo_stream(self._stream)
            together.xrange(self._stream, min=f"({self._position.id}", count=limit + 1)
            info, entries = together.execute(raise_on_error=False)
            if isinstance(info, Exception):
                raise _gone(self._address, self._stream, info)
            if isinstance(entries, Exception):
                raise entries
        return StreamState.of(info), entries

    def _wait(self) -> None:
        with self._address.telling():
            block_ms = int(FETCH_WAIT_SECONDS * 1000)
            self._connection.xread({self._stream: self._position.id}, count=1, block=block_ms)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _state(address: Address, connection: Any, stream: str) -> StreamState:
    with address.telling():
        try:
            return StreamState.of(connection.xinfo_stream(stream))
        except Exception as error:
            raise _gone(address, stream, error) from error


def _gone(address: Address, stream: str, error: Exception) -> Exception:
    """A stream that isn't there, in our words; other failures as they are."""
    if "no such key" in str(error):
        return OperationsError(
            f'there is no stream "{stream}" in Redis at {address}',
            hint=f"it appears with its first entry (XADD), or empty with XGROUP CREATE {stream} readers $ MKSTREAM",
        )
    if "WRONGTYPE" in str(error):
        return ConfigurationError(f'"{stream}" in Redis at {address} is not a stream', detail=str(error))
    return error

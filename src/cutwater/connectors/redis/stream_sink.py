"""How does every record get into a Redis stream exactly once?

Redis runs a script as one: it appends records of an epoch and notes how far the writer has come, unless it has come as
far already. An epoch that is applied again, by a successor or by a driver that was thought dead, finds the note and
appends nothing. A large epoch goes in parts, so that the server isn't held up: the note tells the parts, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cutwater.batches import Batch, rows_of
from cutwater.connectors.bases.sending import Sender, SendingWriter
from cutwater.connectors.bases.write_ahead import Epoch, WriteAheadSink
from cutwater.connectors.contract import Sink, SinkWriter, WriterContext
from cutwater.connectors.redis.connection import Address
from cutwater.connectors.redis.entries import fields_of
from cutwater.connectors.settings import check_choice, check_positive
from cutwater.errors import ConfigurationError

#: A hash: for each writer the number of its last epoch, and how many of its records are in the stream.
EPOCHS_KEY = "cutwater:epochs"
#: Records that are appended together: a few milliseconds of the server.
PART_MAX = 2_000

#: Progress is text of one length, because Lua's numbers are exact up to 2^53 only.
_APPEND = """
local reached = redis.call('HGET', KEYS[2], ARGV[1])
if reached and reached >= ARGV[2] then return 0 end
local at = 4
while at <= #ARGV do
  local last = at + tonumber(ARGV[at])
  if ARGV[3] == '' then
    redis.call('XADD', KEYS[1], '*', unpack(ARGV, at + 1, last))
  else
    redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[3], '*', unpack(ARGV, at + 1, last))
  end
  at = last + 1
end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
return 1
"""


def redis_stream(
    url: str,
    stream: str,
    *,
    delivery: str = "exactly_once",
    maxlen: int | None = None,
    options: Mapping[str, Any] | None = None,
) -> Sink:
    """Appends each record to a Redis stream. Needs the extra `redis`.

    A record that is a dict or a row becomes the fields of an entry (nulls are left out of rows), anything else its
    field "value": text, bytes or numbers.

    Exactly once ("exactly_once"): records wait in the snapshot. When their checkpoint is complete, a script appends
    them and notes the epoch's number in the hash `cutwater:epochs`, atomically. They appear once a checkpoint, those of
    a task in order. This is as durable as the server: with `appendfsync everysec`, Redis' default, a server that
    crashes loses the last second, records and notes alike; `always` loses nothing. The same holds for a failover to a
    replica that lags behind. Fields of the hash are named job/uid/run/task; delete those of runs that are over.

    "at_least_once": records are appended as they come, and again after a failure.

    url: `redis://user:password@host:6379/0`, `rediss://…` for TLS, or `unix://…`.
    maxlen: the stream is trimmed to about so many entries.
    options: of `redis.Redis`, e.g. `{"ssl_ca_certs": "ca.pem", "password": "…"}`.
    """
    check_choice("delivery", delivery, ("exactly_once", "at_least_once"))
    if not isinstance(stream, str) or not stream:
        raise ConfigurationError("stream must be a name", detail=f"it is {stream!r}")
    if maxlen is not None:
        check_positive("maxlen", maxlen)
    address = Address(url, dict(options or {}))
    if delivery == "exactly_once":
        return ExactStreamSink(address, stream, maxlen)
    return PlainStreamSink(address, stream, maxlen)


class StreamSink(Sink):
    def __init__(self, address: Address, stream: str, maxlen: int | None) -> None:
        self._address = address
        self._stream = stream
        self._maxlen = maxlen

    @property
    def name(self) -> str:
        return f"redis_stream({self._stream})"

    def check(self, *, restores: bool = False) -> None:
        check_stream(self._address, self._stream)


class ExactStreamSink(StreamSink, WriteAheadSink):
    def encode(self, batch: Batch) -> Sequence[Any]:
        return list(map(fields_of, rows_of(batch)))

    def apply(self, epoch: Epoch, records: Sequence[Any]) -> None:
        with self._address.telling(), self._address.connect() as connection:
            append = connection.register_script(_APPEND)
            for begin in range(0, len(records), PART_MAX):
                part = records[begin : begin + PART_MAX]
                words = [word for fields in part for word in (len(fields), *fields)]
                progress = f"{epoch.number:020d}:{begin + len(part):012d}"
                append(keys=(self._stream, EPOCHS_KEY), args=(epoch.writer, progress, self._maxlen or "", *words))


class PlainStreamSink(StreamSink):
    def writer(self, context: WriterContext) -> SinkWriter:
        return SendingWriter(self, EntrySender(self._address, self._stream, self._maxlen), context)


class EntrySender(Sender):
    """Appends as records come, many in a round trip."""

    def __init__(self, address: Address, stream: str, maxlen: int | None) -> None:
        self._address = address
        self._start = ("XADD", stream, *(() if maxlen is None else ("MAXLEN", "~", maxlen)), "*")
        self._connection: Any = None

    def connect(self) -> None:
        self._connection = self._address.connect()

    def send(self, batch: Batch) -> None:
        rows = rows_of(batch)
        for begin in range(0, len(rows), PART_MAX):
            with self._address.telling():
                together = self._connection.pipeline(transaction=False)
                for row in rows[begin : begin + PART_MAX]:
                    together.execute_command(*self._start, *fields_of(row))
                together.execute()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def check_stream(address: Address, stream: str) -> None:
    """The server answers, and the name isn't that of something else."""
    address.check()
    with address.telling(), address.connect() as connection:
        kind = connection.type(stream)
    kind = kind.decode() if isinstance(kind, bytes) else kind
    if kind not in ("none", "stream"):
        raise ConfigurationError(f'"{stream}" in Redis at {address} is not a stream', detail=f"it is a {kind}")

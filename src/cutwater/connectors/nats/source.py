"""How is a stream of NATS JetStream read, so that its messages count once?"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa

from cutwater.connectors.bases.decoding import Value, settled
from cutwater.connectors.bases.extras import client
from cutwater.connectors.bases.fetching import FETCH_WAIT_SECONDS, Fetched, Fetcher, FetchingReader
from cutwater.connectors.contract import Discovery, ReaderContext, Source, SplitReader
from cutwater.connectors.failures import PeerError
from cutwater.connectors.nats.messages import MessageDecoder
from cutwater.connectors.nats.session import Servers, Session, stream_named, with_session
from cutwater.errors import ConfigurationError, OperationsError
from cutwater.protocol.splits import Split

Start: TypeAlias = "str | int | datetime"
#: Behind the message of this sequence; text: from this moment on, when no message was read yet.
Position: TypeAlias = "int | str"

#: Messages that are asked for at once.
FETCH_MAX = 2_000
#: The server forgets a consumer that didn't ask for so long: a job that is held up keeps it.
CONSUMER_IDLE_SECONDS = 300.0
#: At the end of the stream, the server is asked so often how things are.
LOOK_SECONDS = 2.0
PENDING_BYTES_MAX = 1 << 30


def nats(
    servers: str | Sequence[str],
    stream: str,
    *,
    subject: str | None = None,
    start: Start = "earliest",
    value: Value = "bytes",
    schema: pa.Schema | None = None,
    options: Mapping[str, Any] | None = None,
) -> NatsSource:
    """A source of the messages of a stream of NATS JetStream. Needs the extra `nats`.

    Exactly once: the position is the sequence of the last message that was read, and it is in the snapshot. The
    consumer is ephemeral and acknowledges nothing. One task reads; the stream never ends. It must keep its messages by
    limits: work queues and interest drop what was read, so that it couldn't be read again. Messages that the limits
    dropped before they were read are noticed: the job fails with a clear error. With `subject=` it can't be told
    whether one of the dropped ones was asked for, so that is an error as well.

    servers: `nats://host:4222`, or several of one cluster.
    subject: only messages of this subject; wildcards are allowed.
    start: where a job that isn't restored begins: "earliest", "latest", a sequence, or a moment (a datetime).
    value: what a record is: "bytes", "text", "json", or what a function makes of the message (of nats-py: `data`,
        `subject`, `headers`, `metadata`).
    schema: messages are JSON objects, and records are typed.
    options: of `nats.connect`, e.g. `{"user": "…", "password": "…"}`, `{"tls": context}`.
    """
    if not isinstance(stream, str) or not stream:
        raise ConfigurationError("stream must be a name", detail=f"it is {stream!r}")
    value, schema = settled(value, schema, topic=stream)
    if isinstance(start, datetime):
        if start.tzinfo is None:
            raise ConfigurationError("start must have a time zone", detail=f"it is {start!r}")
    elif start not in ("earliest", "latest") and (type(start) is not int or start < 1):
        raise ConfigurationError(
            "start must be 'earliest', 'latest', a sequence or a datetime", detail=f"it is {start!r}"
        )
    return NatsSource(Servers.of(servers, options), stream, subject, start, value, schema)


class NatsSource(Source):
    """One split: the stream."""

    eager = True
    bounded = False
    can_tolerate = True

    def __init__(
        self,
        servers: Servers,
        stream: str,
        subject: str | None,
        start: Start,
        value: Value,
        schema: pa.Schema | None,
    ) -> None:
        self._servers = servers
        self._stream = stream
        self._subject = subject
        self._start = start
        self._value = value
        self._schema = schema

    @property
    def name(self) -> str:
        return f"nats({self._stream}{f', {self._subject}' if self._subject else ''})"

    @property
    def schema(self) -> pa.Schema | None:
        return self._schema

    def check(self) -> None:
        retention = self._info().config.retention
        if str(retention or "limits") != "limits":
            raise OperationsError(
                f'stream "{self._stream}" can\'t be read again after a failure',
                detail=f"its retention is {retention!s}",
                hint='use a stream whose retention is "limits", e.g. one that mirrors it',
            )

    def discover(self, parallelism: int) -> Discovery:
        """The start is part of the split: "latest" is the moment when the job started."""
        start = start_of(self._info().state, self._start)
        return Discovery((Split(self._stream, msgspec.msgpack.encode(start)),), complete=True)

    def _info(self) -> Any:
        return with_session(self._servers, lambda session: stream_named(session, self._stream, self._servers))

    def reader(self, split: Split, position: Any, context: ReaderContext) -> SplitReader:
        decoder = MessageDecoder(self._stream, self._value, self._schema, tolerant=context.tolerant)
        fetcher = MessageFetcher(self._servers, self._stream, self._subject, decoder)
        start = msgspec.msgpack.decode(split.payload) if position is None else position
        return FetchingReader(fetcher, start, context, name=f'source "{self.name}"')


def start_of(state: Any, start: Start) -> Position:
    """Where reading begins. `state`: of the stream."""
    if isinstance(start, datetime):
        return start.isoformat()
    if start == "latest":
        return int(state.last_seq)
    before_all = max(int(state.first_seq), 1) - 1
    return before_all if isinstance(start, str) else max(start - 1, before_all)


def before_gap(behind: int, messages: Sequence[Any]) -> int:
    """The last sequence in front of the first that is missing: of another subject, or dropped.

    It may be missing in the middle of a batch: the server sends while others purge.
    """
    for message in messages:
        sequence = message.metadata.sequence.stream
        if sequence > behind + 1:
            break
        behind = sequence
    return behind


class MessageFetcher(Fetcher):
    """Pulls messages behind a sequence, by a consumer that is made anew for every connection."""

    def __init__(self, servers: Servers, stream: str, subject: str | None, decoder: MessageDecoder) -> None:
        self._servers = servers
        self._stream = stream
        self._subject = subject
        self._decoder = decoder
        self._session: Session | None = None
        self._pull: Any = None
        self._position: Position = 0
        #: The consumer numbers what it delivers: a gap means that messages were lost on the way.
        self._delivered = 0
        self._looked_seconds = 0.0

    def connect(self, position: Any) -> None:
        self._position = position
        self._delivered = 0
        self._session = Session(self._servers)
        self._session.run(self._subscribe(self._session))

    async def _subscribe(self, session: Session) -> None:
        await self._check_nothing_lost(session, behind=self._position)
        api = client("nats.js.api", extra="nats")
        config = api.ConsumerConfig(
            ack_policy=api.AckPolicy.NONE,
            inactive_threshold=CONSUMER_IDLE_SECONDS,
            mem_storage=True,
            num_replicas=1,
        )
        if isinstance(self._position, str):
            config.deliver_policy = api.DeliverPolicy.BY_START_TIME
            config.opt_start_time = datetime.fromisoformat(self._position)
        else:
            config.deliver_policy = api.DeliverPolicy.BY_START_SEQUENCE
            config.opt_start_seq = self._position + 1
        self._pull = await session.jetstream.pull_subscribe(
            self._subject or ">", stream=self._stream, config=config, pending_bytes_limit=PENDING_BYTES_MAX
        )

    def fetch(self, limit: int) -> Fetched | None:
        assert self._session is not None
        return self._session.run(self._fetch(self._session, limit))

    async def _fetch(self, session: Session, limit: int) -> Fetched | None:
        try:
            messages = await self._pull.fetch(min(limit, FETCH_MAX), timeout=FETCH_WAIT_SECONDS)
        except TimeoutError:
            return await self._look(session)
        if not messages:
            return None
        behind, last = self._position, messages[-1].metadata
        if last.sequence.consumer != self._delivered + len(messages):
            raise PeerError(f'messages of stream "{self._stream}" were lost on the way', hint="they are read again")
        if isinstance(behind, int) and last.sequence.stream > behind + len(messages):
            await self._check_nothing_lost(session, behind=before_gap(behind, messages))
        decoded = self._decoder.decode(messages)
        self._delivered = last.sequence.consumer
        self._position = last.sequence.stream
        return Fetched(self._position, decoded.batch, lag=last.num_pending, unreadable=decoded.unreadable)

    async def _look(self, session: Session) -> Fetched | None:
        """There is nothing: is the server well, and how far have others filled the stream meanwhile?"""
        if not session.is_connected:
            raise session.gone("the connection was closed")
        now = time.monotonic()
        if now - self._looked_seconds < LOOK_SECONDS:
            return None
        self._looked_seconds = now
        last = (await stream_named(session, self._stream, self._servers)).state.last_seq
        try:
            consumer = await self._pull.consumer_info()
        except client("nats.js.errors", extra="nats").NotFoundError as error:
            raise session.gone("the server has forgotten the consumer") from error
        read_all = consumer.num_pending == 0 and consumer.delivered.consumer_seq == self._delivered
        if not read_all or self._position == last or isinstance(self._position, str):
            return None
        # What lies between is of other subjects. The position goes on, so that the limits can't overtake it.
        self._position = last
        return Fetched(last, lag=0)

    async def _check_nothing_lost(self, session: Session, *, behind: Position) -> None:
        """`behind`: up to this one, everything was read."""
        state = (await stream_named(session, self._stream, self._servers)).state
        if isinstance(behind, str):
            return
        if state.last_seq < behind:
            raise OperationsError(
                f'stream "{self._stream}" has lost messages that were read before',
                detail=f"we are behind {behind}, its last one is {state.last_seq}",
                hint="the stream was deleted and made anew, or the server lost its newest data",
            )
        if state.first_seq > behind + 1:
            raise OperationsError(
                f'stream "{self._stream}" dropped messages before they were read',
                detail=f"we are behind {behind}, its first one is {state.first_seq}",
                hint="let it keep more (max_age, max_msgs, max_bytes); to go on without them, start the job anew",
            )

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None

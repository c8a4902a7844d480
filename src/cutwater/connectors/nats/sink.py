"""How do records get into a stream of NATS JetStream?"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cutwater.batches import Batch, rows_of
from cutwater.connectors.bases.extras import client
from cutwater.connectors.bases.sending import Sender, SendingWriter
from cutwater.connectors.bases.write_ahead import Epoch, WriteAheadSink
from cutwater.connectors.contract import Delivery, Sink, SinkWriter, WriterContext
from cutwater.connectors.failures import user_function_failed
from cutwater.connectors.nats.epochs import BUCKET, apply_epoch, bucket_of
from cutwater.connectors.nats.messages import payload_of
from cutwater.connectors.nats.publishing import Message, Publisher
from cutwater.connectors.nats.session import Servers, Session, with_session
from cutwater.connectors.settings import check_choice
from cutwater.errors import ConfigurationError, OperationsError, SerializationError

log = logging.getLogger("cutwater")


def nats(
    servers: str | Sequence[str],
    subject: str,
    *,
    delivery: str = "exactly_once",
    id: Callable[[Any], str] | None = None,  # noqa: A002 - what the broker calls it
    bucket: str = BUCKET,
    options: Mapping[str, Any] | None = None,
) -> Sink:
    """Publishes each record to a subject that a stream of NATS JetStream takes. Needs the extra `nats`.

    Bytes are published as they are, text as UTF-8, everything else as JSON (a row as an object).

    "exactly_once": records wait in the snapshot. When their checkpoint is complete, they are published, each with an id
    (`Nats-Msg-Id`) that is the same whenever they are published again, and the epoch's number is noted in a key-value
    bucket before and after. An epoch that was interrupted is looked for in the stream, and only what isn't there is
    published, however late. What is left: records of an interrupted epoch that the stream's limits have dropped, or
    that were deleted, before the epoch is completed are published again; and an old driver that hangs in the middle of
    an epoch for longer than the stream's `duplicate_window`, and wakes up when a successor has completed it, publishes
    the rest of it a second time.

    "fingerprint": records are published as they come, with the id that the function `id` gives them. After a failure
    they are published again, and the broker drops what it has seen within its `duplicate_window`: let that be longer
    than the checkpoint interval and the longest time that the job may be down. The same input must give the same ids.

    "at_least_once": records are published as they come, and again after a failure.

    JetStream writes to files, but waits for the disk every two minutes only (`sync_interval`): a server process that is
    killed loses nothing, a machine that loses power may; replicas help.

    servers: `nats://host:4222`, or several of one cluster.
    bucket: of the epochs' numbers; it is made if it isn't there.
    options: of `nats.connect`, e.g. `{"user": "…", "password": "…"}`, `{"tls": context}`.
    """
    check_choice("delivery", delivery, ("exactly_once", "fingerprint", "at_least_once"))
    if not isinstance(subject, str) or not subject or set(subject) & set(" *>"):
        raise ConfigurationError("subject must be a name without spaces and wildcards", detail=f"it is {subject!r}")
    if (id is not None) != (delivery == "fingerprint"):
        raise ConfigurationError(
            'id= and delivery="fingerprint" belong together',
            hint="id is a function of the record, e.g. lambda order: order['id']",
        )
    where = Servers.of(servers, options)
    if delivery == "exactly_once":
        return ExactNatsSink(where, subject, bucket)
    return NatsSink(where, subject, id)


class ExactNatsSink(WriteAheadSink):
    def __init__(self, servers: Servers, subject: str, bucket: str) -> None:
        self._servers = servers
        self._subject = subject
        self._bucket = bucket

    @property
    def name(self) -> str:
        return f"nats({self._subject})"

    def check(self, *, restores: bool = False) -> None:
        async def check(session: Session) -> None:
            await check_stream(session, self._servers, self._subject, self.name)
            await bucket_of(session, self._bucket)

        with_session(self._servers, check)

    def encode(self, batch: Batch) -> Sequence[Any]:
        return list(map(payload_of, rows_of(batch)))

    def apply(self, epoch: Epoch, records: Sequence[Any]) -> None:
        with_session(self._servers, lambda session: apply_epoch(session, self._subject, self._bucket, epoch, records))


class NatsSink(Sink):
    def __init__(self, servers: Servers, subject: str, id_of: Callable[[Any], str] | None) -> None:
        self._servers = servers
        self._subject = subject
        self._id_of = id_of
        self.delivery = Delivery.PLAIN if id_of is None else Delivery.FINGERPRINT

    @property
    def name(self) -> str:
        return f"nats({self._subject})"

    def check(self, *, restores: bool = False) -> None:
        with_session(self._servers, lambda session: check_stream(session, self._servers, self._subject, self.name))

    def writer(self, context: WriterContext) -> SinkWriter:
        return SendingWriter(self, MessageSender(self._servers, self._subject, self._id_of), context)


class MessageSender(Sender):
    """Publishes as records come; all are acknowledged when it returns."""

    def __init__(self, servers: Servers, subject: str, id_of: Callable[[Any], str] | None) -> None:
        self._servers = servers
        self._subject = subject
        self._id_of = id_of
        self._session: Session | None = None
        self._publisher: Publisher | None = None

    def connect(self) -> None:
        self._session = Session(self._servers)
        self._publisher = Publisher(self._session, self._subject)

    def send(self, batch: Batch) -> None:
        assert self._session is not None
        assert self._publisher is not None
        self._session.run(self._publisher.publish(self._messages(batch)))

    def _messages(self, batch: Batch) -> list[Message]:
        rows = rows_of(batch)
        if self._id_of is None:
            return [(payload_of(row), None) for row in rows]
        return [(payload_of(row), _checked_id(self._id_of, row)) for row in rows]

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None


def _checked_id(id_of: Callable[[Any], str], row: Any) -> str:
    try:
        found = id_of(row)
    except Exception as error:
        raise user_function_failed("id=", error, given=repr(row)) from error
    if not isinstance(found, str) or not found or not found.isprintable():
        raise SerializationError("id= must give a text", detail=f"it gave {found!r} for {row!r}")
    return found


async def check_stream(session: Session, servers: Servers, subject: str, name: str) -> None:
    """A stream takes the subject; says for how long it recognises what it has seen."""
    errors = client("nats.js.errors", extra="nats")
    try:
        stream = await session.jetstream.find_stream_name_by_subject(subject)
    except errors.NotFoundError as error:
        raise OperationsError(
            f'no stream of NATS at {servers} takes the subject "{subject}"',
            hint=f"nats stream add NAME --subjects {subject}",
        ) from error
    window_seconds = (await session.jetstream.stream_info(stream)).config.duplicate_window
    log.info('sink "%s": stream "%s" recognises duplicates for %s s', name, stream, window_seconds)

"""How is an epoch published to JetStream exactly once, though it knows no transactions?

A note in a key-value bucket says which epoch a writer has begun, behind which message of the stream, and whether it is
done. Messages have ids that are the same whenever the epoch is applied. An epoch that was begun and isn't done was
interrupted: what is in the stream already, behind that message, is recognised by its ids, and only the rest is
published. The broker drops what two drivers publish at the same time. Notes are replaced only by who has read them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

from cutwater.connectors.bases.extras import client
from cutwater.connectors.bases.write_ahead import Epoch
from cutwater.connectors.failures import PeerError
from cutwater.connectors.nats.publishing import Publisher
from cutwater.connectors.nats.session import ANSWER_TIMEOUT_SECONDS, Session

BUCKET = "cutwater_epochs"
_LOOK_MAX = 2_000


class Note(msgspec.Struct, frozen=True):
    """How far a writer has come."""

    #: For people: the key is a digest of it.
    writer: str
    number: int
    #: The last message of the stream before the epoch's first.
    behind: int
    done: bool


async def apply_epoch(session: Session, subject: str, bucket: str, epoch: Epoch, payloads: Sequence[bytes]) -> None:
    """Publishes what isn't in the stream yet."""
    notes = await bucket_of(session, bucket)
    key = hashlib.sha256(epoch.writer.encode()).hexdigest()[:32]
    note, revision = await _read(notes, key)
    if note is not None and (note.number > epoch.number or (note.number == epoch.number and note.done)):
        return
    stream = await session.jetstream.find_stream_name_by_subject(subject)
    ids = [f"{key}-{epoch.number}-{index}" for index in range(len(payloads))]
    there: set[str] = set()
    if note is None or note.number < epoch.number:
        behind = (await session.jetstream.stream_info(stream)).state.last_seq
        note = Note(epoch.writer, epoch.number, behind, done=False)
        revision = await _replace(notes, key, note, revision)
    else:
        there = await _ids_behind(session, stream, subject, note.behind)
    missing = [(payload, name) for payload, name in zip(payloads, ids, strict=True) if name not in there]
    await Publisher(session, subject).publish(missing)
    await _replace(notes, key, msgspec.structs.replace(note, done=True), revision)


async def bucket_of(session: Session, bucket: str) -> Any:
    """Made if it isn't there."""
    errors = client("nats.js.errors", extra="nats")
    try:
        return await session.jetstream.key_value(bucket)
    except errors.NotFoundError:
        return await session.jetstream.create_key_value(bucket=bucket, history=1)


async def _read(notes: Any, key: str) -> tuple[Note | None, int]:
    errors = client("nats.js.errors", extra="nats")
    try:
        entry = await notes.get(key)
    except errors.NotFoundError:
        return None, 0
    return msgspec.json.decode(entry.value, type=Note), entry.revision


async def _replace(notes: Any, key: str, note: Note, revision: int) -> int:
    errors = client("nats.js.errors", extra="nats")
    try:
        return int(await notes.update(key, msgspec.json.encode(note), last=revision))
    except errors.KeyWrongLastSequenceError as error:
        raise PeerError(
            "another driver writes the same epoch", detail=f"{note.writer}, number {note.number}"
        ) from error


async def _ids_behind(session: Session, stream: str, subject: str, behind: int) -> set[str]:
    """The ids of all messages of the subject that are in the stream now, behind this sequence."""
    last = (await session.jetstream.stream_info(stream)).state.last_seq
    api = client("nats.js.api", extra="nats")
    config = api.ConsumerConfig(
        ack_policy=api.AckPolicy.NONE,
        deliver_policy=api.DeliverPolicy.BY_START_SEQUENCE,
        opt_start_seq=behind + 1,
        headers_only=True,
        mem_storage=True,
        num_replicas=1,
    )
    pull = await session.jetstream.pull_subscribe(subject, stream=stream, config=config)
    found: set[str] = set()
    pending = (await pull.consumer_info()).num_pending
    while pending and behind < last:
        messages = await pull.fetch(_LOOK_MAX, timeout=ANSWER_TIMEOUT_SECONDS)
        found.update(message.headers["Nats-Msg-Id"] for message in messages if "Nats-Msg-Id" in (message.headers or {}))
        pending = messages[-1].metadata.num_pending
        behind = messages[-1].metadata.sequence.stream
    await pull.unsubscribe()
    return found

"""How do records get into an index of Elasticsearch exactly once, in effect?

A document replaces the one with the same id, so that a record which is written again does no harm. Records without an
id of their own wait in the snapshot; from then on each has an id that never changes, and a document that is there
already is left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Any
from urllib.parse import urlsplit

from cutwater.batches import Batch
from cutwater.connectors.bases.sending import Sender, SendingWriter
from cutwater.connectors.bases.write_ahead import Epoch, WriteAheadSink
from cutwater.connectors.contract import Delivery, Sink, SinkWriter, WriterContext
from cutwater.connectors.elasticsearch.bulk import Unfinished
from cutwater.connectors.elasticsearch.cluster import Cluster, Connection
from cutwater.connectors.elasticsearch.documents import Mapper, Operation
from cutwater.connectors.settings import absolute_path, check_callable, check_text
from cutwater.errors import ConfigurationError

_NOT_IN_NAMES = set('\\/*?"<>| ,#:')


def elasticsearch(
    url: str | Sequence[str],
    index: str | Callable[[Any], str],
    *,
    id: str | Callable[[Any], Any] | None = None,  # noqa: A002 - what Elasticsearch calls it
    version: str | Callable[[Any], int] | None = None,
    document: Callable[[Any], Any] | None = None,
    user: str | None = None,
    password: str | None = None,
    api_key: str | None = None,
    ca_file: str | None = None,
    certificate: tuple[str, str] | None = None,
    parameters: Mapping[str, str] | None = None,
) -> Sink:
    """Writes each record as a document: dicts, named tuples, dataclasses, or rows of a typed stream.

    With `id`, idempotent: a document replaces the one with the same id, and a checkpoint completes when Elasticsearch
    has acknowledged what came before it. If several records of a task have the same id, the last one wins. Behind
    an operator that is keyed by the id, one task has them all.

    Without `id`, write-ahead: records wait in the snapshot until their checkpoint is complete. Each is then created
    with an id made of its epoch and its number in it, the same however often that is done; what is there stays.

    `url`: `https://host:9200`, or those of several nodes.
    `index`: a name, or a function of the record, which must always give the same for the same record. Elasticsearch
    makes an index that isn't there, unless it is told not to. A data stream takes records without ids only.
    `id`: a column, or a function of the record; text or whole numbers.
    `version`: with `id`, a column or a function that gives a whole number; a document is replaced only by one whose
    version isn't lower, whatever arrives last.
    `document`: with `id`, a function that says what of the record to write; None deletes the document.
    `user` and `password`, or `api_key` (the encoded form). `ca_file`: certificates of authorities; `certificate`: files
    of our own certificate and key. Every slot needs those files.
    `parameters`: of every bulk request, such as `{"pipeline": "…"}`.
    """
    urls = (url,) if isinstance(url, str) else tuple(url)
    _check_urls(urls)
    _check_index(index)
    for option, value in (("id", id), ("version", version)):
        if value is not None and not callable(value):
            check_text(option, value)
    if document is not None:
        check_callable("document", document)
    if id is None and (version is not None or document is not None):
        raise ConfigurationError("version= and document= have no use without id=", hint='e.g. id="order_id"')
    if api_key is not None and user is not None:
        raise ConfigurationError("either api_key= or user= says who we are")
    authority = None if ca_file is None else absolute_path(ca_file)
    own = None if certificate is None else (absolute_path(certificate[0]), absolute_path(certificate[1]))
    cluster = Cluster(urls, user, password, api_key, authority, own, dict(parameters or {}))
    mapper = Mapper(index, id, version, document)
    return ElasticsearchCreateSink(cluster, mapper) if id is None else ElasticsearchSink(cluster, mapper)


def _check_urls(urls: Sequence[str]) -> None:
    for url in urls:
        parts = urlsplit(url) if isinstance(url, str) else None
        if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
            # It may hold a password.
            raise ConfigurationError("url is no address of Elasticsearch", hint='e.g. "https://host:9200"')
    if not urls:
        raise ConfigurationError("url must name a node at least")


def _check_index(index: str | Callable[[Any], str]) -> None:
    if callable(index):
        return
    check_text("index", index)
    if index != index.lower() or set(index) & _NOT_IN_NAMES or index[0] in "-_+" or len(index.encode()) > 255:
        raise ConfigurationError(
            f"index {index!r} is no name for one",
            hint="lower-case letters, digits, and - _ . inside, 255 bytes at most",
        )


def _name(mapper: Mapper) -> str:
    return f"elasticsearch({mapper.index if isinstance(mapper.index, str) else '…'})"


class ElasticsearchSink(Sink):
    """Replaces documents as records come."""

    delivery = Delivery.IDEMPOTENT

    def __init__(self, cluster: Cluster, mapper: Mapper) -> None:
        self._cluster = cluster
        self._mapper = mapper

    @property
    def name(self) -> str:
        return _name(self._mapper)

    def check(self, *, restores: bool = False) -> None:
        self._cluster.check()

    def writer(self, context: WriterContext) -> SinkWriter:
        return SendingWriter(self, DocumentSender(self._cluster, self._mapper, turn=context.subtask), context)


class DocumentSender(Sender):
    settles_at_once = True

    def __init__(self, cluster: Cluster, mapper: Mapper, *, turn: int) -> None:
        self._cluster = cluster
        self._mapper = mapper
        self._turn = turn
        self._connection: Connection | None = None
        #: The batch that is being sent, and what is left of it: it is sent again after a `PeerError`.
        self._batch: Batch | None = None
        self._unfinished = Unfinished(())

    def connect(self) -> None:
        self._connection = Connection(self._cluster, self._turn)
        self._turn += 1  # the next time it is another node's turn

    def send(self, batch: Batch) -> None:
        assert self._connection is not None, "not connected"
        if batch is not self._batch:
            self._unfinished = Unfinished(self._mapper.operations(batch))
            self._batch = batch
        self._unfinished.finish(self._connection)
        self._batch = None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class ElasticsearchCreateSink(WriteAheadSink):
    """Creates the documents of an epoch when its checkpoint is complete, each time with the same ids."""

    def __init__(self, cluster: Cluster, mapper: Mapper) -> None:
        self._cluster = cluster
        self._mapper = mapper

    @property
    def name(self) -> str:
        return _name(self._mapper)

    def check(self, *, restores: bool = False) -> None:
        self._cluster.check()

    def encode(self, batch: Batch) -> Sequence[tuple[str, bytes]]:
        return self._mapper.sources(batch)

    def apply(self, epoch: Epoch, records: Sequence[Any]) -> None:
        """No number of the epoch is needed: its documents say themselves that they are there."""
        prefix = f"{blake2b(epoch.writer.encode(), digest_size=16).hexdigest()}-{epoch.number}"
        connection = Connection(self._cluster, turn=epoch.number)
        try:
            Unfinished(
                Operation(index, f"{prefix}-{number}", source, creates=True)
                for number, (index, source) in enumerate(records)
            ).finish(connection)
        finally:
            connection.close()

"""Documents get into a real Elasticsearch once each, whatever is killed. Opt-in: `make test-elasticsearch`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple
from uuid import uuid4

import pyarrow as pa
import pytest
from servers.elasticsearch import Elasticsearch

import cutwater as cw
from cutwater.connectors.contract import Sink
from cutwater.connectors.failures import PeerError
from cutwater.errors import ConfigurationError, SchemaError
from cutwater.graph.guarantees import Guarantee
from cutwater.testing.connectors import Fault, SinkSubject, check_sink

from .endpoints import Writing

# It takes long to start, and to start again.
pytestmark = pytest.mark.timeout(1800)

RECORDS = 20_000
MAPPING = {"properties": {"n": {"type": "long"}, "name": {"type": "keyword"}}}


class Outside:
    """An index of its own, without our connector."""

    def __init__(self, server: Elasticsearch) -> None:
        self.server = server
        self.index = f"i{uuid4().hex}"
        settings = {"number_of_shards": 2, "number_of_replicas": 0}
        server.ask("PUT", f"/{self.index}", {"settings": settings, "mappings": MAPPING})

    def sink(self, **options: Any) -> Sink:
        return cw.sinks.elasticsearch(self.server.url, self.index, **options)

    def write(self, *batches: Sequence[Any], **options: Any) -> None:
        with Writing(self.sink(**options)) as writing:
            for batch in batches:
                writing.write(batch)
            writing.sink.commit(writing.prepare())

    def documents(self) -> dict[str, Any]:
        """All of them, by id."""
        self.server.ask("POST", f"/{self.index}/_refresh")
        page = self.server.ask("POST", f"/{self.index}/_search?scroll=1m&size=10000", {"sort": ["_doc"]})
        found: dict[str, Any] = {}
        while page["hits"]["hits"]:
            found |= {hit["_id"]: hit["_source"] for hit in page["hits"]["hits"]}
            page = self.server.ask("POST", "/_search/scroll", {"scroll": "1m", "scroll_id": page["_scroll_id"]})
        return found


class Upserted(SinkSubject):
    options: ClassVar[dict[str, Any]] = {"id": "n"}

    def __init__(self, server: Elasticsearch) -> None:
        self.server = server
        self.clear()

    def clear(self) -> None:
        self.outside = Outside(self.server)

    def sink(self) -> Sink:
        return self.outside.sink(**self.options)

    @staticmethod
    def record(number: int) -> Any:
        return {"n": number, "name": f"name {number}"}

    def received(self) -> Sequence[int]:
        return [document["n"] for document in self.outside.documents().values()]


class Created(Upserted):
    options: ClassVar[dict[str, Any]] = {}


@pytest.mark.parametrize("subject", [Upserted, Created])
@pytest.mark.parametrize(
    "fault", [Fault.SLOTS_KILLED, Fault.SERVER_KILLED, Fault.KILLED_WHEN_PREPARED, Fault.SAVEPOINT]
)
def test_documents_are_written_exactly_once_in_effect(
    spark: Any, elasticsearch: Elasticsearch, subject: type[Upserted], fault: Fault
) -> None:
    report = check_sink(subject(elasticsearch), records=RECORDS, faults=[fault], spark=spark)
    print(report)  # noqa: T201 — for people who want to see the table: pytest -s
    assert report.guarantee is Guarantee.EXACTLY_ONCE


def test_what_was_acknowledged_is_kept_when_the_server_is_killed(elasticsearch: Elasticsearch) -> None:
    outside = Outside(elasticsearch)
    outside.write([{"n": 1}], id="n")
    elasticsearch.kill()
    elasticsearch.restart()
    assert outside.documents() == {"1": {"n": 1}}


def test_the_last_record_of_an_id_wins(elasticsearch: Elasticsearch) -> None:
    outside = Outside(elasticsearch)
    outside.write([{"n": 1, "name": str(number)} for number in range(100)], [{"n": 1, "name": "last"}], id="n")
    assert outside.documents() == {"1": {"n": 1, "name": "last"}}


def test_an_older_version_replaces_nothing(elasticsearch: Elasticsearch) -> None:
    outside = Outside(elasticsearch)
    newest, older = {"n": 7, "name": "newest"}, {"n": 5, "name": "older"}
    outside.write([newest], [older], [older, newest], [older], id=lambda _: "x", version="n")
    assert outside.documents() == {"x": newest}


def test_a_record_without_a_document_deletes_it(elasticsearch: Elasticsearch) -> None:
    outside = Outside(elasticsearch)
    records = [[(1, {"n": 1}), (2, {"n": 2})], [(1, None), (3, None)]]
    outside.write(*records, id=lambda pair: pair[0], document=lambda pair: pair[1])
    assert outside.documents() == {"2": {"n": 2}}


def test_an_epoch_that_is_committed_again_creates_nothing_new(elasticsearch: Elasticsearch) -> None:
    outside = Outside(elasticsearch)
    with Writing(outside.sink()) as writing:
        writing.write([{"n": number} for number in range(100)])
        prepared = writing.prepare()
        assert outside.documents() == {}
        writing.sink.commit(prepared)
        writing.sink.commit(prepared)
    assert sorted(document["n"] for document in outside.documents().values()) == list(range(100))


def test_a_function_chooses_the_index_of_each_record(elasticsearch: Elasticsearch) -> None:
    some, others = Outside(elasticsearch), Outside(elasticsearch)
    names = (some.index, others.index)
    sink = cw.sinks.elasticsearch(elasticsearch.url, lambda record: names[record["n"]], id="n")
    with Writing(sink) as writing:
        writing.write([{"n": 0}, {"n": 1}])
        writing.prepare()
    assert (some.documents(), others.documents()) == ({"0": {"n": 0}}, {"1": {"n": 1}})


class Named(NamedTuple):
    n: int


@dataclass
class Plain:
    n: int


@pytest.mark.parametrize("record", [{"n": 1}, Named(1), Plain(1)])
def test_records_of_any_kind_become_documents(elasticsearch: Elasticsearch, record: Any) -> None:
    outside = Outside(elasticsearch)
    outside.write([record], id="n")
    assert outside.documents() == {"1": {"n": 1}}


def test_rows_of_a_typed_stream_become_documents(elasticsearch: Elasticsearch) -> None:
    outside = Outside(elasticsearch)
    with Writing(outside.sink(id=lambda row: row.name)) as writing:
        writing.writer.write(pa.record_batch({"n": [1, 2], "name": ["one", "two"]}))
        writing.prepare()
    assert outside.documents() == {"one": {"n": 1, "name": "one"}, "two": {"n": 2, "name": "two"}}


@pytest.mark.parametrize("options", [{"id": "n"}, {}])
def test_a_document_that_does_not_fit_the_mapping_is_named(
    elasticsearch: Elasticsearch, options: dict[str, Any]
) -> None:
    outside = Outside(elasticsearch)
    with pytest.raises(SchemaError, match=f'refuses document ".*" of index "{outside.index}"') as raised:
        outside.write([{"n": 1}, {"n": "one"}], **options)
    assert "failed to parse field [n] of type [long]" in raised.value.detail


def test_what_an_overloaded_server_rejects_is_sent_again(elasticsearch: Elasticsearch) -> None:
    """As it does when its disk is almost full: 429 for each document, until someone makes room."""
    outside = Outside(elasticsearch)
    block = "index.blocks.read_only_allow_delete"
    elasticsearch.ask("PUT", f"/{outside.index}/_settings", {block: True})
    free = Outside(elasticsearch)
    names = (outside.index, free.index)
    sink = cw.sinks.elasticsearch(elasticsearch.url, lambda record: names[record["n"] % 2], id="n")
    with Writing(sink) as writing:
        writing.write([{"n": number} for number in range(10)])
        promise = writing.writer.prepare(1)  # type: ignore[arg-type]
        with pytest.raises(TimeoutError):
            promise.result(1.0)  # type: ignore[union-attr]
        assert sorted(free.documents()) == ["1", "3", "5", "7", "9"]
        elasticsearch.ask("PUT", f"/{outside.index}/_settings", {block: None})
        promise.result(60.0)  # type: ignore[union-attr]
    assert sorted(outside.documents()) == ["0", "2", "4", "6", "8"]


def test_wrong_addresses_are_told_before_the_job_starts(elasticsearch: Elasticsearch) -> None:
    with pytest.raises(PeerError, match=r"Elasticsearch at 127\.0\.0\.1:1 can't be reached"):
        cw.sinks.elasticsearch("http://127.0.0.1:1", "orders").check()


# --------------------------------------------------------------------------------------------- passwords, keys and TLS


@pytest.fixture(scope="module")
def secured(elasticsearch: Elasticsearch) -> Iterator[Elasticsearch]:
    with Elasticsearch(secured=True) as server:
        yield server


def test_who_has_a_password_or_a_key_may_write(secured: Elasticsearch) -> None:
    outside = Outside(secured)
    key = secured.ask("POST", "/_security/api_key", {"name": "test"})["encoded"]
    authority = str(secured.authority)
    outside.write([{"n": 1}], id="n", user=secured.user, password=secured.password, ca_file=authority)
    outside.write([{"n": 2}], id="n", api_key=key, ca_file=authority)
    assert sorted(outside.documents()) == ["1", "2"]


def test_who_is_not_known_is_told_before_the_job_starts(secured: Elasticsearch) -> None:
    options = {"user": secured.user, "password": "wrong", "ca_file": str(secured.authority)}
    with pytest.raises(ConfigurationError, match="refuses access") as raised:
        cw.sinks.elasticsearch(secured.url, "orders", **options).check()
    assert "wrong" not in str(raised.value)


def test_a_certificate_of_an_unknown_authority_is_refused(secured: Elasticsearch) -> None:
    with pytest.raises(ConfigurationError, match="can't be verified"):
        cw.sinks.elasticsearch(secured.url, "orders").check()

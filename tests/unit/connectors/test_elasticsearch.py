from __future__ import annotations

import pickle

import pytest

from cutwater.batches import ObjectBatch
from cutwater.connectors import sinks
from cutwater.connectors.contract import Delivery
from cutwater.connectors.elasticsearch.bulk import Unfinished
from cutwater.connectors.elasticsearch.cluster import Cluster, TooLarge
from cutwater.connectors.elasticsearch.documents import Mapper, Operation
from cutwater.connectors.failures import PeerError
from cutwater.errors import ConfigurationError, SchemaError, UserFunctionError

URL = "http://host:9200"


class Scripted:
    """A connection that answers as it was told to, and knows what it was given."""

    title = "host:9200"
    request_bytes_max = 1000

    def __init__(self, *answers):
        self._answers = list(answers)
        self.bodies = []

    def bulk(self, body):
        self.bodies.append(body)
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return [{"index": each if isinstance(each, dict) else {"status": each}} for each in answer]


def operations(count, **more):
    return [Operation("i", str(number), b"{}", **more) for number in range(count)]


def ids(body):
    return [line.split(b'"_id":"')[1][:1].decode() for line in body.splitlines() if b"_id" in line]


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"url": "host:9200"}, "url is no address"),
        ({"url": ()}, "url must name a node"),
        ({"index": "Orders"}, "index 'Orders' is no name"),
        ({"index": ""}, "index must be"),
        ({"version": "v"}, "no use without id="),
        ({"id": "n", "document": "d"}, "document must be callable"),
        ({"user": "u", "api_key": "k"}, "either api_key= or user="),
    ],
)
def test_impossible_settings_are_refused(settings, problem):
    given = {"url": URL, "index": "orders", **settings}
    with pytest.raises(ConfigurationError, match=problem):
        sinks.elasticsearch(given.pop("url"), given.pop("index"), **given)


def test_with_an_id_it_is_idempotent_and_without_one_write_ahead():
    by_id, without = sinks.elasticsearch(URL, "orders", id="n"), sinks.elasticsearch(URL, "orders")
    assert (by_id.delivery, without.delivery) == (Delivery.IDEMPOTENT, Delivery.WRITE_AHEAD)
    assert (by_id.name, pickle.loads(pickle.dumps(without)).name) == ("elasticsearch(orders)",) * 2


def test_secrets_are_not_shown():
    cluster = Cluster(("https://u:secret@host",), "u", "secret", "secret")
    assert "secret" not in repr(cluster)
    assert cluster.headers(cluster.urls[0]) == {"Authorization": "ApiKey secret"}


def test_a_name_and_a_password_may_stand_in_the_address():
    assert Cluster(("https://u:p%40ss@host",)).headers("https://u:p%40ss@host") == {"Authorization": "Basic dTpwQHNz"}


def test_what_is_rejected_is_sent_again_and_nothing_else():
    unfinished = Unfinished(operations(3))
    connection = Scripted([201, 429, 200], [201])
    with pytest.raises(PeerError, match="does not take all documents now"):
        unfinished.finish(connection)
    unfinished.finish(connection)
    assert [ids(body) for body in connection.bodies] == [["0", "1", "2"], ["1"]]


def test_what_was_under_way_when_the_server_went_away_is_sent_again():
    unfinished = Unfinished(operations(2))
    connection = Scripted(PeerError("gone"), [201, 201])
    with pytest.raises(PeerError, match="gone"):
        unfinished.finish(connection)
    unfinished.finish(connection)
    assert [ids(body) for body in connection.bodies] == [["0", "1"], ["0", "1"]]


def test_a_request_that_is_too_large_is_sent_in_two():
    connection = Scripted(TooLarge(), [201, 201], [201, 201])
    Unfinished(operations(4)).finish(connection)
    assert [ids(body) for body in connection.bodies] == [["0", "1", "2", "3"], ["0", "1"], ["2", "3"]]


def test_a_document_that_is_too_large_is_named():
    with pytest.raises(SchemaError, match='document "0" of index "i" is too large'):
        Unfinished(operations(1)).finish(Scripted(TooLarge()))


@pytest.mark.parametrize("more", [{"creates": True}, {"version": 3}])
def test_a_document_that_is_there_already_is_as_good_as_written(more):
    Unfinished(operations(1, **more)).finish(Scripted([409]))


def test_a_document_that_is_gone_already_is_as_good_as_deleted():
    Unfinished([Operation("i", "1", None)]).finish(Scripted([404]))


@pytest.mark.parametrize(("status", "kind"), [(400, SchemaError), (409, SchemaError), (403, ConfigurationError)])
def test_a_document_that_is_refused_is_named(status, kind):
    error = {"type": "outer", "reason": "why", "caused_by": {"type": "inner", "reason": "really"}}
    with pytest.raises(kind, match='refuses document "1" of index "i"') as raised:
        Unfinished(operations(2)).finish(Scripted([201, {"status": status, "error": error}]))
    assert "outer: why; inner: really" in raised.value.detail


def test_the_last_of_an_id_is_sent_and_of_versions_the_highest():
    records = [{"id": 1, "v": 5}, {"id": 1, "v": 4}, {"id": 2, "v": 1}]
    by_id, by_version = Mapper("i", "id"), Mapper("i", "id", version="v")
    batch = ObjectBatch(records)
    assert [operation.source for operation in by_id.operations(batch)] == [b'{"id":1,"v":4}', b'{"id":2,"v":1}']
    assert [operation.version for operation in by_version.operations(batch)] == [5, 1]


def test_operations_are_written_as_the_bulk_api_wants_them():
    assert Operation("i", "1", b"{}").lines() == b'{"index":{"_index":"i","_id":"1"}}\n{}\n'
    assert Operation("i", "1", None).lines() == b'{"delete":{"_index":"i","_id":"1"}}\n'
    versioned = Operation("i", "1", b"{}", version=2, creates=True).lines()
    assert versioned == b'{"create":{"_index":"i","_id":"1","version":2,"version_type":"external_gte"}}\n{}\n'


@pytest.mark.parametrize(
    ("mapper", "record", "problem"),
    [
        (Mapper("i", "id"), {"n": 1}, 'no "id", which is its id'),
        (Mapper("i", "id"), {"id": None}, "has no id"),
        (Mapper("i", "id"), {"id": 1.5}, "has no id"),
        (Mapper("i", "id", version="id"), {"id": "x"}, "version must be a whole number"),
        (Mapper("i", lambda _: "x"), "text", "must have fields"),
        (Mapper("i", lambda _: "x"), {"f": object()}, "can't be written as JSON"),
        (Mapper(lambda _: None, "id"), {"id": 1}, "index= must give the name"),
    ],
)
def test_records_that_are_no_documents_are_shown(mapper, record, problem):
    with pytest.raises(SchemaError, match=problem) as raised:
        mapper.operations(ObjectBatch([record]))
    assert repr(record)[:20] in raised.value.detail


def test_a_function_that_fails_is_named_with_the_record():
    with pytest.raises(UserFunctionError, match="id= raised KeyError") as raised:
        Mapper("i", lambda record: record["x"]).operations(ObjectBatch([{"n": 1}]))
    assert "{'n': 1}" in raised.value.detail

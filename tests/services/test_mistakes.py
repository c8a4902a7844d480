"""Is each mistake about the outside one clear line, which names the place and shows no password?

The tests of single connectors have more of these. A wrong address is a `PeerError`: a job that runs tries again. The
rest is told at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import psycopg
import pyarrow as pa
import pytest

import cutwater as cw
from cutwater.connectors.failures import PeerError
from cutwater.errors import CutwaterError

from .endpoints import Reading, Writing

SECRET = "bad-secret"
NOBODY = "127.0.0.1:1"
POSTGRES, MYSQL = f"postgresql://u:{SECRET}@{NOBODY}/d", f"mysql://u:{SECRET}@{NOBODY}/d"
REDIS, AMQP = f"redis://u:{SECRET}@{NOBODY}", f"amqp://u:{SECRET}@{NOBODY}/%2F"


class Mistake(NamedTuple):
    server: str
    #: In the process of the driver, before the job starts.
    make: Callable[[Any], Any]
    #: {at}: the address of the server.
    said: str


def mistyped(url: str) -> str:
    """The URL with a wrong password."""
    scheme, _, rest = url.partition("://")
    user, _, place = rest.rpartition("@")
    return f"{scheme}://{user.partition(':')[0] or 'guest'}:{SECRET}@{place}"


WRONG_ADDRESSES = [
    Mistake("postgres", lambda _: cw.sinks.postgres(POSTGRES, "t"), f"PostgreSQL at {NOBODY}/d can't be reached"),
    Mistake(
        "postgres",
        lambda _: cw.sources.postgres(POSTGRES, "t", order_by="id"),
        f"PostgreSQL at {NOBODY}/d can't be reached",
    ),
    Mistake(
        "postgres",
        lambda _: cw.sources.postgres_changes(POSTGRES, tables=("t",), slot="s"),
        f"PostgreSQL at {NOBODY}/d can't be reached",
    ),
    Mistake("mariadb", lambda _: cw.sinks.mariadb(MYSQL, "t"), f"MariaDB at {NOBODY}/d can't be reached"),
    Mistake("redis", lambda _: cw.sinks.redis_stream(REDIS, "s"), f"Redis at {NOBODY} can't be reached"),
    Mistake("redis", lambda _: cw.sinks.redis(REDIS, key="k"), f"Redis at {NOBODY} can't be reached"),
    Mistake("nats", lambda _: cw.sinks.nats(f"nats://{NOBODY}", "a.b"), f"NATS at {NOBODY} can't be reached"),
    Mistake(
        "rabbitmq",
        lambda _: cw.sinks.rabbitmq(AMQP, routing_key="q"),
        f"RabbitMQ at {NOBODY} can't be reached, or went away",
    ),
    Mistake(
        "rabbitmq",
        lambda _: cw.sources.rabbitmq_stream(AMQP, "q"),
        f"RabbitMQ at {NOBODY} can't be reached, or went away",
    ),
]
REFUSED_AND_MISSING = [
    Mistake(
        "postgres",
        lambda server: cw.sinks.postgres(mistyped(server.url), "t"),
        "PostgreSQL at {at}/postgres refused the connection",
    ),
    Mistake(
        "postgres",
        lambda server: cw.sources.postgres(mistyped(server.url), "t", order_by="id"),
        "PostgreSQL at {at}/postgres refused the connection",
    ),
    Mistake(
        "postgres",
        lambda server: cw.sources.postgres_changes(mistyped(server.url), tables=("t",), slot="s"),
        "PostgreSQL at {at}/postgres refused the connection",
    ),
    Mistake(
        "postgres",
        lambda server: cw.sources.postgres(server.url, "missing", order_by="id"),
        "PostgreSQL at {at}/postgres can't read missing",
    ),
    Mistake(
        "mariadb",
        lambda server: cw.sinks.mariadb(mistyped(server.how_to_connect), "t"),
        "MariaDB at {at}/cutwater refused the connection",
    ),
    Mistake(
        "mariadb",
        lambda server: cw.sinks.mariadb(f"{server.how_to_connect}_missing", "t"),
        "MariaDB at {at}/cutwater_missing refused the connection",
    ),
    Mistake(
        "redis",
        lambda server: cw.sinks.redis_stream(mistyped(server.how_to_connect), "s"),
        "Redis at {at} refuses the credentials",
    ),
    Mistake(
        "rabbitmq",
        lambda server: cw.sinks.rabbitmq(mistyped(server.url), routing_key="q"),
        'RabbitMQ at {at} refuses user "guest"',
    ),
    Mistake(
        "rabbitmq",
        lambda server: cw.sources.rabbitmq_stream(server.url, "missing"),
        "RabbitMQ at {at} has no queue 'missing' in vhost '/'",
    ),
]


def told(mistake: Mistake, server: Any) -> CutwaterError:
    with pytest.raises(CutwaterError) as raised:
        mistake.make(server).check()
    assert "\n" not in raised.value.in_one_line
    assert SECRET not in str(raised.value)
    return raised.value


@pytest.mark.parametrize("mistake", WRONG_ADDRESSES, ids=lambda mistake: mistake.server)
def test_a_wrong_address_is_one_clear_line_and_may_be_tried_again(mistake: Mistake) -> None:
    error = told(mistake, None)
    assert (error.fact, isinstance(error, PeerError)) == (mistake.said, True)


@pytest.mark.parametrize("mistake", REFUSED_AND_MISSING, ids=lambda mistake: mistake.server)
def test_what_is_refused_or_missing_is_one_clear_line_at_once(request: pytest.FixtureRequest, mistake: Mistake) -> None:
    server = request.getfixturevalue(mistake.server)
    error = told(mistake, server)
    assert (error.fact, isinstance(error, PeerError)) == (mistake.said.format(at=server.address), False)


@pytest.mark.parametrize(
    ("make", "record", "said"),
    [
        (lambda url: cw.sinks.redis_stream(url, "s"), {"n": [1]}, "a record can't become an entry of a stream"),
        (lambda url: cw.sinks.redis(url, key="n", value="v"), {"n": 1}, "value= raised KeyError: 'v'"),
    ],
)
def test_a_record_of_another_shape_fails_the_writer(redis: Any, make: Any, record: Any, said: str) -> None:
    with Writing(make(redis.how_to_connect)) as writing, pytest.raises(CutwaterError) as raised:
        written(writing, record)
    assert raised.value.fact == said


def written(writing: Writing, record: Any) -> None:
    writing.write([record])
    writing.prepare()


def test_rows_of_another_type_fail_the_reader(postgres: Any) -> None:
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS mistyped AS SELECT 1::bigint AS id, 'x' AS name")
    schema = pa.schema([("id", pa.int64()), ("name", pa.int64())])
    source = cw.sources.postgres(postgres.url, "mistyped", order_by="id", schema=schema, bounded=True)
    with Reading(source) as reading:
        error = reading.until_it_fails()
    assert str(error).splitlines()[0] == f"rows of PostgreSQL at {postgres.address}/postgres don't fit the schema"

"""Do source and sinks of Redis keep their promises, with a real server that is killed?"""

from __future__ import annotations

import random
import threading
import uuid
from collections import Counter
from typing import Any

import pytest
from servers.redis import Redis

import cutwater as cw
from cutwater.connectors.redis.stream_sink import EPOCHS_KEY, PART_MAX
from cutwater.errors import ConfigurationError, OperationsError

from .endpoints import Reading, Writing, read

redis_client = pytest.importorskip("redis")


@pytest.fixture
def client(redis: Redis) -> Any:
    return redis_client.Redis.from_url(redis.how_to_connect)


@pytest.fixture
def stream() -> str:
    return f"stream-{uuid.uuid4().hex}"


@pytest.fixture
def source(redis: Redis, stream: str) -> Any:
    return cw.sources.redis_stream(redis.how_to_connect, stream, value="n")


def add(client: Any, stream: str, numbers: range, **options: Any) -> None:
    together = client.pipeline(transaction=False)
    for number in numbers:
        together.xadd(stream, {"n": number}, **options)
    together.execute()


def texts(numbers: range) -> list[str]:
    return [str(number) for number in numbers]


def entries(client: Any, stream: str, field: bytes = b"value") -> list[int]:
    return [int(fields[field]) for _, fields in client.xrange(stream)]


# ---------------------------------------------------------------------------------------------------------- the source


def test_a_stream_is_read_from_its_beginning_and_goes_on_at_a_position(client: Any, stream: str, source: Any) -> None:
    add(client, stream, range(3_000))
    first, position = read(source, 1_000)
    rest, _ = read(source, 3_000 - len(first), position=position)
    assert first + rest == texts(range(3_000))


def test_entries_that_come_later_are_read_and_the_lag_is_known(client: Any, stream: str, source: Any) -> None:
    add(client, stream, range(5_000))
    with Reading(source) as reading:
        read_first = len(reading.until(1))
        behind = reading.reader.lag
        reading.until(5_000)
        add(client, stream, range(5_000, 5_010))
        assert reading.until(5_010) == texts(range(5_010))
        assert (behind, reading.reader.lag) == (5_000 - read_first, 0)


def test_the_start_may_be_the_end_or_an_id(redis: Redis, client: Any, stream: str) -> None:
    add(client, stream, range(10))
    fourth = client.xrange(stream)[3][0].decode()

    def from_start(start: str) -> Reading:
        return Reading(cw.sources.redis_stream(redis.how_to_connect, stream, start=start, value="n"))

    with from_start("latest") as latest, from_start(fourth) as behind_fourth:
        add(client, stream, range(10, 12))
        assert (latest.until(2), behind_fourth.until(8)) == (texts(range(10, 12)), texts(range(4, 12)))


def test_every_stream_is_a_split(redis: Redis, client: Any, stream: str) -> None:
    for name in (stream, f"{stream}-other"):
        add(client, name, range(3))
    source = cw.sources.redis_stream(redis.how_to_connect, [stream, f"{stream}-other"])
    assert [read(source, 3, split=split)[0] for split in (0, 1)] == [[{"n": str(n)} for n in range(3)]] * 2


def test_entries_that_were_trimmed_before_they_were_read_are_an_error(client: Any, stream: str, source: Any) -> None:
    add(client, stream, range(3_000))
    _, position = read(source, 1_000)
    client.xtrim(stream, maxlen=1_000, approximate=False)
    with Reading(source, position=position) as reading:
        assert "trimmed before it was read" in str(reading.until_it_fails())


def test_entries_that_came_and_were_trimmed_while_the_job_was_down_are_an_error(
    client: Any, stream: str, source: Any
) -> None:
    add(client, stream, range(10))
    _, position = read(source, 10)
    add(client, stream, range(10, 30), maxlen=5, approximate=False)
    with Reading(source, position=position) as reading:
        assert "trimmed before it was read" in str(reading.until_it_fails())


def test_a_stream_that_is_trimmed_behind_the_reader_loses_nothing(client: Any, stream: str, source: Any) -> None:
    add(client, stream, range(10))
    with Reading(source) as reading:
        for begin in range(10, 200, 10):
            reading.until(begin)
            add(client, stream, range(begin, begin + 10), maxlen=10, approximate=False)
        assert reading.until(200) == texts(range(200))


def test_a_stream_that_was_deleted_is_an_error(client: Any, stream: str, source: Any) -> None:
    add(client, stream, range(10))
    _, position = read(source, 10)
    client.delete(stream)
    add(client, stream, range(3))
    with Reading(source, position=position) as reading:
        assert "lost entries that were read before" in str(reading.until_it_fails())


def test_a_server_that_is_killed_and_comes_back_is_read_on(redis: Redis, client: Any, stream: str, source: Any) -> None:
    add(client, stream, range(50_000))
    with Reading(source) as reading:
        for count in (5_000, 20_000):
            reading.until(count)
            redis.restart()
        assert reading.until(50_000) == texts(range(50_000))


# -------------------------------------------------------------------------------------------------------- exactly once


def test_an_epoch_that_is_applied_again_appends_nothing(redis: Redis, client: Any, stream: str) -> None:
    sink = cw.sinks.redis_stream(redis.how_to_connect, stream)
    with Writing(sink) as writing:
        writing.write(range(PART_MAX * 2 + 10))
        prepared = writing.prepare()
    before = entries(client, stream)
    for _ in range(3):
        sink.commit(prepared)
    assert (before, entries(client, stream)) == ([], list(range(PART_MAX * 2 + 10)))


def test_an_epoch_that_was_applied_in_part_is_completed(redis: Redis, client: Any, stream: str) -> None:
    sink = cw.sinks.redis_stream(redis.how_to_connect, stream)
    with Writing(sink) as writing:
        writing.write(range(PART_MAX * 3))
        prepared = writing.prepare()
    sink.commit(prepared)
    # As if only the first part had gone out.
    writer = next(name for name, _ in client.hscan_iter(EPOCHS_KEY) if stream.encode() in name)
    number = client.hget(EPOCHS_KEY, writer).split(b":")[0]
    client.hset(EPOCHS_KEY, writer, number + b":%012d" % PART_MAX)
    client.xtrim(stream, maxlen=0, approximate=False)
    sink.commit(prepared)
    assert entries(client, stream) == list(range(PART_MAX, PART_MAX * 3))


def test_an_old_driver_that_wakes_up_late_appends_nothing(redis: Redis, client: Any, stream: str) -> None:
    sink = cw.sinks.redis_stream(redis.how_to_connect, stream)
    with Writing(sink, attempt=1) as old, Writing(sink, attempt=2) as new:
        old.write([1])
        from_old = old.prepare()
        new.write([2])
        sink.commit(from_old)
        sink.commit(new.prepare())
        sink.commit(from_old)
    assert entries(client, stream) == [1, 2]


def test_a_server_that_is_killed_while_epochs_are_applied_holds_each_record_once(
    redis: Redis, client: Any, stream: str
) -> None:
    sink = cw.sinks.redis_stream(redis.how_to_connect, stream)
    done = threading.Event()
    killer = threading.Thread(target=_kill_until, args=(redis, done, 5))
    killer.start()
    try:
        with Writing(sink) as writing:
            for begin in range(0, 100_000, 10_000):
                writing.write(range(begin, begin + 10_000))
                sink.commit(writing.prepare())
    finally:
        done.set()
        killer.join()
    assert entries(client, stream) == list(range(100_000))


def _kill_until(redis: Redis, done: threading.Event, times: int) -> None:
    dice = random.Random(7)
    for _ in range(times):
        if done.wait(dice.uniform(0.05, 0.4)):
            return
        redis.restart()


# ----------------------------------------------------------------------------------------------------- the other sinks


def test_at_least_once_appends_as_records_come_and_again_after_a_kill(redis: Redis, client: Any, stream: str) -> None:
    sink = cw.sinks.redis_stream(redis.how_to_connect, stream, delivery="at_least_once")
    with Writing(sink) as writing:
        for begin in range(0, 50_000, 1_000):
            writing.write(range(begin, begin + 1_000))
            if begin == 20_000:
                redis.restart()
        writing.prepare()
    assert Counter(entries(client, stream)).keys() == set(range(50_000))


def test_keys_are_set_replaced_and_deleted(redis: Redis, client: Any, stream: str) -> None:
    sink = cw.sinks.redis(redis.how_to_connect, key="id", value="of", prefix=f"{stream}:")
    with Writing(sink) as writing:
        writing.write([{"id": 1, "of": "a"}, {"id": 2, "of": {"x": 1, "y": "z"}}, {"id": 3, "of": 7}])
        writing.write([{"id": 1, "of": "b"}, {"id": 3, "of": None}])
        writing.prepare()
    assert (client.get(f"{stream}:1"), client.hgetall(f"{stream}:2"), client.exists(f"{stream}:3")) == (
        b"b",
        {b"x": b"1", b"y": b"z"},
        0,
    )


def test_keys_survive_a_server_that_is_killed(redis: Redis, client: Any, stream: str) -> None:
    sink = cw.sinks.redis(redis.how_to_connect, key=str, prefix=f"{stream}:")
    with Writing(sink) as writing:
        for begin in range(0, 50_000, 1_000):
            writing.write(range(begin, begin + 1_000))
            if begin in (10_000, 30_000):
                redis.restart()
        writing.prepare()
    values = client.mget([f"{stream}:{number}" for number in range(50_000)])
    assert [int(value) for value in values] == list(range(50_000))


# ---------------------------------------------------------------------------------------------------- before the start


def test_what_is_wrong_with_the_outside_is_one_clear_line(redis: Redis, client: Any, stream: str) -> None:
    url = redis.how_to_connect
    client.set(f"{stream}-key", 1)
    client.acl_setuser(stream, enabled=True, passwords=["+right"])
    wrong = url.replace("://", f"://{stream}:bad-secret@")

    def said(endpoint: Any) -> str:
        with pytest.raises((OperationsError, ConfigurationError)) as raised:
            endpoint.check()
        assert "bad-secret" not in str(raised.value)
        return str(raised.value.fact)

    assert said(cw.sources.redis_stream("redis://127.0.0.1:1", stream)) == "Redis at 127.0.0.1:1 can't be reached"
    assert said(cw.sources.redis_stream(wrong, stream)) == f"Redis at {redis.address} refuses the credentials"
    assert said(cw.sources.redis_stream(url, stream)) == f'there is no stream "{stream}" in Redis at {redis.address}'
    assert said(cw.sources.redis_stream(url, f"{stream}-key")).endswith("is not a stream")
    assert said(cw.sinks.redis_stream(url, f"{stream}-key")).endswith("is not a stream")
    assert said(cw.sinks.redis(wrong, key="k")) == f"Redis at {redis.address} refuses the credentials"

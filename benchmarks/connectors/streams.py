"""Redis streams and NATS JetStream beside redis-py and nats-py."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, ClassVar

import cutwater as cw
from benchmarks.connectors.cases import Case, SinkCase, SourceCase, payload
from benchmarks.connectors.ratios import Run, Stopwatch
from cutwater.connectors.contract import Sink, Source

PER_CALL = 1_000


def redis_cases(url: str) -> list[Case]:
    return [RedisSource(url), RedisSink(url), RedisPlainSink(url)]


def nats_cases(url: str) -> list[Case]:
    return [NatsSource(url), NatsPlainSink(url)]


# ---------------------------------------------------------------------------------------------------------------- Redis


class RedisSource(SourceCase):
    name = "Redis, a stream"
    bare_does = "redis-py, XREAD of 1,000"
    rows_share = 0.1

    def __init__(self, url: str) -> None:
        self.url = url

    def fill(self) -> None:
        client = _redis(self.url)
        if client.exists(self._stream):
            return
        _append(client, self._stream, self.rows)

    def source(self) -> Source:
        return cw.sources.redis_stream(self.url, self._stream, value="value")

    def bare(self) -> Run:
        client = _redis(self.url)
        watch = Stopwatch(self.rows)
        behind = "0"
        while True:
            ((_, entries),) = client.xread({self._stream: behind}, count=PER_CALL)
            behind = entries[-1][0]
            if watch.saw(len([fields[b"value"].decode() for _, fields in entries])):
                return watch.end()

    @property
    def _stream(self) -> str:
        return f"source-{self.rows}"


class RedisSink(SinkCase):
    name = "Redis stream, exactly once"
    bare_does = "redis-py, MULTI/EXEC of 1,000 XADD"
    rows_share = 0.1
    options: ClassVar[dict[str, Any]] = {}
    record = staticmethod(payload)
    transaction: ClassVar[bool] = True

    def __init__(self, url: str) -> None:
        self.url = url

    def clear(self) -> None:
        _redis(self.url).delete("sink", "cutwater:epochs")

    def sink(self) -> Sink:
        return cw.sinks.redis_stream(self.url, "sink", **self.options)

    def bare(self) -> Run:
        client = _redis(self.url)
        watch = Stopwatch(self.rows)
        watch.begin()
        _append(client, "sink", self.rows, transaction=self.transaction)
        return watch.end()

    def received(self) -> int | None:
        found: int = _redis(self.url).xlen("sink")
        return found


class RedisPlainSink(RedisSink):
    name = "Redis stream, at least once"
    bare_does = "redis-py, pipelines of 1,000 XADD"
    options: ClassVar[dict[str, Any]] = {"delivery": "at_least_once"}
    transaction = False


def _redis(url: str) -> Any:
    import redis

    return redis.Redis.from_url(url)


def _append(client: Any, stream: str, rows: int, *, transaction: bool = False) -> None:
    for first in range(0, rows, PER_CALL):
        together = client.pipeline(transaction=transaction)
        for index in range(first, min(first + PER_CALL, rows)):
            together.xadd(stream, {"value": payload(index)})
        together.execute()


# ----------------------------------------------------------------------------------------------------------------- NATS


class NatsSource(SourceCase):
    name = "NATS JetStream"
    bare_does = "nats-py, a pull consumer, fetch(1,000)"
    rows_share = 0.05

    def __init__(self, url: str) -> None:
        self.url = url

    @property
    def _stream(self) -> str:
        return f"source-{self.rows}"

    def fill(self) -> None:
        _in_loop(self._fill())

    async def _fill(self) -> None:
        connection = await _nats(self.url)
        jetstream = connection.jetstream()
        streams = await jetstream.streams_info()
        if self._stream not in [each.config.name for each in streams]:
            await jetstream.add_stream(name=self._stream, subjects=[f"{self._stream}.a"])
            await _publish(jetstream, f"{self._stream}.a", self.rows)
        await connection.close()

    def source(self) -> Source:
        return cw.sources.nats(self.url, self._stream)

    def bare(self) -> Run:
        return _in_loop(self._bare())

    async def _bare(self) -> Run:
        from nats.js.api import AckPolicy, ConsumerConfig

        connection = await _nats(self.url)
        pull = await connection.jetstream().pull_subscribe(
            f"{self._stream}.a", stream=self._stream, config=ConsumerConfig(ack_policy=AckPolicy.NONE)
        )
        watch = Stopwatch(self.rows)
        while not watch.saw(len([message.data for message in await pull.fetch(PER_CALL, timeout=5)])):
            pass
        run = watch.end()
        await connection.close()
        return run


class NatsPlainSink(SinkCase):
    name = "NATS JetStream, at least once"
    bare_does = "nats-py, 1,000 publish at once (gather)"
    rows_share = 0.02
    record = staticmethod(payload)

    def __init__(self, url: str) -> None:
        self.url = url
        self.runs = 0

    def clear(self) -> None:
        self.runs += 1
        _in_loop(self._make())

    async def _make(self) -> None:
        connection = await _nats(self.url)
        await connection.jetstream().add_stream(name=self._stream, subjects=[f"{self._stream}.a"])
        await connection.close()

    @property
    def _stream(self) -> str:
        return f"sink-{self.rows}-{self.runs}"

    def sink(self) -> Sink:
        return cw.sinks.nats(self.url, f"{self._stream}.a", delivery="at_least_once")

    def bare(self) -> Run:
        return _in_loop(self._bare())

    async def _bare(self) -> Run:
        connection = await _nats(self.url)
        watch = Stopwatch(self.rows)
        watch.begin()
        await _publish(connection.jetstream(), f"{self._stream}.a", self.rows)
        run = watch.end()
        await connection.close()
        return run

    def received(self) -> int | None:
        return _in_loop(self._received())

    async def _received(self) -> int:
        connection = await _nats(self.url)
        count: int = (await connection.jetstream().stream_info(self._stream)).state.messages
        await connection.close()
        return count


async def _nats(url: str) -> Any:
    import nats

    return await nats.connect(url)


async def _publish(jetstream: Any, subject: str, rows: int) -> None:
    for first in range(0, rows, PER_CALL):
        numbers = range(first, min(first + PER_CALL, rows))
        await asyncio.gather(*(jetstream.publish(subject, payload(index)) for index in numbers))


def _in_loop(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)

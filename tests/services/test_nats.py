"""Do source and sinks of NATS JetStream keep their promises, with a real server that is killed?"""

from __future__ import annotations

import asyncio
import random
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from servers.nats import Nats

import cutwater as cw
from cutwater.connectors.nats.publishing import Publisher
from cutwater.errors import ConfigurationError, OperationsError

from .endpoints import Reading, Writing, read

nats_client = pytest.importorskip("nats")


class Administrator:
    """What a test does to the server besides."""

    def __init__(self, server: Nats) -> None:
        self._server = server

    def does(self, work: Callable[[Any], Any]) -> Any:
        """By a connection of its own: the server may have been killed since."""

        async def connect_and_work() -> Any:
            connection = await nats_client.connect(self._server.url)
            try:
                return await work(connection.jetstream())
            finally:
                await connection.close()

        return asyncio.run(connect_and_work())

    def makes(self, stream: str, **limits: Any) -> None:
        self.does(lambda js: js.add_stream(name=stream, subjects=[f"{stream}.>"], **limits))

    def publishes(self, subject: str, numbers: range) -> None:
        async def publish(js: Any) -> None:
            for begin in range(0, len(numbers), 1_000):
                part = numbers[begin : begin + 1_000]
                await asyncio.gather(*[await js.publish_async(subject, str(n).encode()) for n in part])

        self.does(publish)

    def purges(self, stream: str, keep: int) -> None:
        self.does(lambda js: js.purge_stream(stream, keep=keep))


@pytest.fixture
def administrator(nats: Nats) -> Administrator:
    return Administrator(nats)


@pytest.fixture
def stream(administrator: Administrator) -> Iterator[str]:
    name = f"s{uuid.uuid4().hex}"
    administrator.makes(name)
    yield name
    administrator.does(lambda js: js.delete_stream(name))


@pytest.fixture
def source(nats: Nats, stream: str) -> Any:
    return cw.sources.nats(nats.url, stream, value="json")


# ---------------------------------------------------------------------------------------------------------- the source


def test_a_stream_is_read_from_its_beginning_and_goes_on_at_a_position(
    administrator: Administrator, stream: str, source: Any
) -> None:
    administrator.publishes(f"{stream}.a", range(3_000))
    first, position = read(source, 1_000)
    rest, _ = read(source, 3_000 - len(first), position=position)
    assert first + rest == list(range(3_000))


def test_messages_that_come_later_are_read_and_the_lag_is_known(
    administrator: Administrator, stream: str, source: Any
) -> None:
    administrator.publishes(f"{stream}.a", range(5_000))
    with Reading(source) as reading:
        read_first = len(reading.until(1))
        behind = reading.reader.lag
        reading.until(5_000)
        administrator.publishes(f"{stream}.a", range(5_000, 5_010))
        assert reading.until(5_010) == list(range(5_010))
        assert (behind, reading.reader.lag) == (5_000 - read_first, 0)


def test_the_start_may_be_the_end_a_sequence_or_a_moment(nats: Nats, administrator: Administrator, stream: str) -> None:
    administrator.publishes(f"{stream}.a", range(10))
    moment = datetime.now(UTC)

    def from_start(start: Any) -> Reading:
        return Reading(cw.sources.nats(nats.url, stream, start=start, value="text"))

    with from_start("latest") as latest, from_start(5) as fifth, from_start(moment) as by_time:
        administrator.publishes(f"{stream}.a", range(10, 12))
        read_by_each = (latest.until(2), fifth.until(8), by_time.until(2))
    assert read_by_each == (["10", "11"], [str(n) for n in range(4, 12)], ["10", "11"])


def test_only_messages_of_the_subject_are_read(nats: Nats, administrator: Administrator, stream: str) -> None:
    source = cw.sources.nats(nats.url, stream, subject=f"{stream}.a", value="json")
    for begin in range(0, 100, 10):
        administrator.publishes(f"{stream}.a", range(begin, begin + 10))
        administrator.publishes(f"{stream}.b", range(50))
    first, position = read(source, 1)
    rest, _ = read(source, 100 - len(first), position=position)
    assert first + rest == list(range(100))


def test_messages_that_were_dropped_before_they_were_read_are_an_error(
    administrator: Administrator, stream: str, source: Any
) -> None:
    administrator.publishes(f"{stream}.a", range(3_000))
    _, position = read(source, 1_000)
    administrator.purges(stream, keep=500)
    with Reading(source, position=position) as reading:
        assert "dropped messages before they were read" in str(reading.until_it_fails())


def test_messages_that_are_dropped_while_the_reader_waits_are_an_error(
    administrator: Administrator, stream: str, source: Any
) -> None:
    administrator.publishes(f"{stream}.a", range(60_000))
    with Reading(source) as reading:
        reading.until(1)
        administrator.purges(stream, keep=10)
        assert "dropped messages before they were read" in str(reading.until_it_fails())


def test_what_was_read_may_be_dropped(administrator: Administrator, stream: str, source: Any) -> None:
    administrator.publishes(f"{stream}.a", range(10))
    first, position = read(source, 10)
    administrator.purges(stream, keep=0)
    administrator.publishes(f"{stream}.a", range(10, 20))
    assert first + read(source, 10, position=position)[0] == list(range(20))


def test_a_server_that_is_killed_and_comes_back_is_read_on(
    nats: Nats, administrator: Administrator, stream: str, source: Any
) -> None:
    administrator.publishes(f"{stream}.a", range(50_000))
    with Reading(source) as reading:
        for count in (5_000, 20_000):
            reading.until(count)
            nats.restart()
        assert reading.until(50_000) == list(range(50_000))


# -------------------------------------------------------------------------------------------------------- exactly once


def test_an_epoch_that_is_applied_again_publishes_nothing(nats: Nats, stream: str, source: Any) -> None:
    sink = cw.sinks.nats(nats.url, f"{stream}.out")
    with Writing(sink) as writing:
        writing.write(range(5_000))
        prepared = writing.prepare()
    for _ in range(3):
        sink.commit(prepared)
    assert _all(source) == list(range(5_000))


def test_an_epoch_that_was_interrupted_is_completed_after_the_broker_has_forgotten_it(
    nats: Nats, administrator: Administrator, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = f"s{uuid.uuid4().hex}"
    administrator.makes(stream, duplicate_window=0.1)
    sink = cw.sinks.nats(nats.url, f"{stream}.out")
    publish = Publisher.publish

    async def publish_some(self: Publisher, messages: Any) -> None:
        await publish(self, messages[:3_000])
        raise OperationsError("interrupted")

    with Writing(sink) as writing:
        writing.write(range(5_000))
        prepared = writing.prepare()
    with monkeypatch.context() as patch:
        patch.setattr(Publisher, "publish", publish_some)
        with pytest.raises(OperationsError, match="interrupted"):
            sink.commit(prepared)
    threading.Event().wait(0.5)
    sink.commit(prepared)
    assert _all(cw.sources.nats(nats.url, stream, value="json")) == list(range(5_000))


def test_an_old_driver_that_wakes_up_late_publishes_nothing(nats: Nats, stream: str, source: Any) -> None:
    sink = cw.sinks.nats(nats.url, f"{stream}.out")
    with Writing(sink, attempt=1) as old, Writing(sink, attempt=2) as new:
        old.write([1])
        from_old = old.prepare()
        new.write([2])
        sink.commit(from_old)
        sink.commit(new.prepare())
        sink.commit(from_old)
    assert _all(source) == [1, 2]


def test_two_drivers_that_apply_an_epoch_at_the_same_time_publish_it_once(nats: Nats, stream: str, source: Any) -> None:
    sink = cw.sinks.nats(nats.url, f"{stream}.out")
    with Writing(sink) as writing:
        writing.write(range(5_000))
        prepared = writing.prepare()
    threads = [threading.Thread(target=sink.commit, args=(prepared,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(_all(source)) == list(range(5_000))


def test_a_server_that_is_killed_while_epochs_are_applied_holds_each_record_once(
    nats: Nats, stream: str, source: Any
) -> None:
    sink = cw.sinks.nats(nats.url, f"{stream}.out")
    done = threading.Event()
    killer = threading.Thread(target=_kill_until, args=(nats, done, 5))
    killer.start()
    try:
        with Writing(sink) as writing:
            for begin in range(0, 100_000, 10_000):
                writing.write(range(begin, begin + 10_000))
                sink.commit(writing.prepare())
    finally:
        done.set()
        killer.join()
    assert sorted(_all(source)) == list(range(100_000))


def _kill_until(nats: Nats, done: threading.Event, times: int) -> None:
    dice = random.Random(7)
    for _ in range(times):
        if done.wait(dice.uniform(0.2, 1.0)):
            return
        nats.restart()


def _all(source: Any) -> list[Any]:
    """What is in the stream now."""
    count = source._info().state.messages
    return read(source, count)[0]


# ----------------------------------------------------------------------------------------------------- the other sinks


def test_records_with_ids_of_their_own_are_there_once_though_they_are_sent_again(
    nats: Nats, stream: str, source: Any
) -> None:
    sink = cw.sinks.nats(nats.url, f"{stream}.out", delivery="fingerprint", id=str)
    for attempt in (1, 2):
        with Writing(sink, attempt=attempt) as writing:
            for begin in range(0, 20_000, 1_000):
                writing.write(range(begin, begin + 1_000))
                if begin == 10_000:
                    nats.restart()
            writing.prepare()
    assert _all(source) == list(range(20_000))


def test_at_least_once_publishes_as_records_come_and_again_after_a_kill(nats: Nats, stream: str, source: Any) -> None:
    sink = cw.sinks.nats(nats.url, f"{stream}.out", delivery="at_least_once")
    with Writing(sink) as writing:
        for begin in range(0, 20_000, 1_000):
            writing.write(range(begin, begin + 1_000))
            if begin == 10_000:
                nats.restart()
        writing.prepare()
    assert Counter(_all(source)).keys() == set(range(20_000))


# ---------------------------------------------------------------------------------------------------- before the start


def test_what_is_wrong_with_the_outside_is_one_clear_line(
    nats: Nats, administrator: Administrator, stream: str
) -> None:
    queue = f"s{uuid.uuid4().hex}"
    administrator.makes(queue, retention="workqueue")

    def said(endpoint: Any) -> str:
        with pytest.raises((OperationsError, ConfigurationError)) as raised:
            endpoint.check()
        return str(raised.value.fact)

    assert said(cw.sources.nats("nats://127.0.0.1:1", stream)) == "NATS at 127.0.0.1:1 can't be reached"
    assert said(cw.sources.nats(nats.url, "none")) == f'there is no stream "none" in NATS at {nats.address}'
    assert said(cw.sources.nats(nats.url, queue)) == f'stream "{queue}" can\'t be read again after a failure'
    assert (
        said(cw.sinks.nats(nats.url, "no.such")) == f'no stream of NATS at {nats.address} takes the subject "no.such"'
    )


def test_the_outside_is_checked_where_an_event_loop_runs_already(nats: Nats, stream: str, source: Any) -> None:
    async def in_a_notebook() -> None:
        source.check()

    asyncio.run(in_a_notebook())


def test_wrong_credentials_are_one_clear_line() -> None:
    class Guarded(Nats):
        def commands(self) -> Any:
            (command,) = super().commands()
            return [type(command)([*command.arguments, "--user", "someone", "--pass", "right"])]

    with Guarded() as server:
        options = {"user": "someone", "password": "bad-secret"}
        with pytest.raises(ConfigurationError, match="refuses the credentials") as raised:
            cw.sources.nats(server.url, "any", options=options).check()
    assert "bad-secret" not in str(raised.value)

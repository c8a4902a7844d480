"""Does a source over HTTP go on where it was, with a real server that is killed?"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from servers.process import Command, Server

import cutwater as cw
from cutwater.errors import ConfigurationError, OperationsError

from .endpoints import Reading, read, wait_until
from .firehose import COUNT, LINES


class Firehose(Server):
    name = "firehose"
    packages = ()

    @property
    def how_to_connect(self) -> str:
        return f"http://{self.address}"

    @property
    def requests(self) -> list[list[str]]:
        """Path, Last-Event-ID if there was one, and the time."""
        log = self.folder / "requests"
        return [line.split() for line in log.read_text().splitlines()] if log.exists() else []

    def commands(self) -> Sequence[Command]:
        script = Path(__file__).with_name("firehose.py")
        return [Command([sys.executable, script, str(self.port), self.folder / "requests"])]


@pytest.fixture
def firehose() -> Iterator[Firehose]:
    with Firehose() as server:
        yield server


def test_events_are_read_and_the_source_goes_on_behind_the_last_id(firehose: Firehose) -> None:
    source = cw.sources.http_stream(f"{firehose.how_to_connect}/events", value="json", replays=True)
    first, position = read(source, 10_000)
    rest, _ = read(source, COUNT - len(first), position=position)
    assert (position, first + rest) == (str(first[-1]), list(range(COUNT)))


def test_a_server_that_is_killed_and_comes_back_is_read_on(firehose: Firehose) -> None:
    source = cw.sources.http_stream(f"{firehose.how_to_connect}/events", value="json", replays=True)
    with Reading(source) as reading:
        for count in (5_000, 20_000, 60_000):
            reading.until(count)
            firehose.restart()
        assert reading.until(COUNT) == list(range(COUNT))


def test_a_response_that_ends_is_asked_for_again_after_the_pause_that_the_server_wants(firehose: Firehose) -> None:
    source = cw.sources.http_stream(f"{firehose.how_to_connect}/restless", value="json", replays=True)
    values, _ = read(source, 3_000)
    first, second, *_ = firehose.requests
    pause_seconds = float(second[-1]) - float(first[-1])
    assert (values, second[1], pause_seconds >= 0.3) == (list(range(3_000)), "999", True)


def test_the_end_of_lines_is_the_end_of_the_stream_if_the_user_says_so(firehose: Firehose) -> None:
    source = cw.sources.http_stream(f"{firehose.how_to_connect}/lines", format="ndjson", ends=True)
    with Reading(source) as reading:
        values = reading.until(LINES + 1)
        assert (values, reading.reader.finished) == ([{"n": n} for n in range(LINES)], True)


def test_an_answer_without_content_is_the_end(firehose: Firehose) -> None:
    with Reading(cw.sources.http_stream(f"{firehose.how_to_connect}/nothing")) as reading:
        assert reading.until(1) == []


def test_a_redirection_is_followed(firehose: Firehose) -> None:
    values, _ = read(cw.sources.http_stream(f"{firehose.how_to_connect}/moved"), 1)
    assert values[0] == "0"


def test_a_server_that_is_busy_is_asked_again_when_it_wants(firehose: Firehose) -> None:
    with Reading(cw.sources.http_stream(f"{firehose.how_to_connect}/busy")):
        wait_until(lambda: len(firehose.requests) >= 2)
    (_, begin), (_, again) = firehose.requests[:2]
    assert float(again) - float(begin) >= 1.0


@pytest.mark.parametrize(
    ("path", "options", "said"),
    [
        ("/unnamed", {"replays": True}, "sent an event without an id"),
        ("/poison", {"format": "ndjson"}, "can't be decoded"),
    ],
)
def test_what_cannot_be_read_fails_the_attempt(
    firehose: Firehose, path: str, options: dict[str, Any], said: str
) -> None:
    with Reading(cw.sources.http_stream(f"{firehose.how_to_connect}{path}", **options)) as reading:
        assert said in str(reading.until_it_fails())


def test_what_is_wrong_with_the_outside_is_one_clear_line(firehose: Firehose) -> None:
    def said(url: str) -> str:
        with pytest.raises((OperationsError, ConfigurationError)) as raised:
            cw.sources.http_stream(url).check()
        return str(raised.value.fact)

    base = firehose.how_to_connect
    assert said("http://127.0.0.1:1/a?token=secret") == "http://127.0.0.1:1/a can't be reached"
    assert said(f"{base}/missing") == f"{base}/missing answered 404 Not Found"
    assert said(f"{base}/forbidden") == f"{base}/forbidden answered 403 Forbidden"

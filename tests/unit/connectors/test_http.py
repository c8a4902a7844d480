"""What is asked of an HTTP stream, and where do its events end?"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cutwater as cw
from cutwater.connectors.contract import Replay
from cutwater.connectors.http.events import EventFramer, LineFramer, ServerSentEvent
from cutwater.errors import ConfigurationError

STREAM = (
    b"\xef\xbb\xbf: a comment\r\n\r\n"
    b"id: 1\ndata: one\n\n"
    b"event: update\rdata:two\rdata: lines\r\r"
    b"retry: 2500\nretry: soon\n\n"
    b"id: 3\r\ndata\r\n\r\n"
    b"id: 4\n\n"
    b"data: unended"
)
EVENTS = [
    ServerSentEvent("one", id="1", has_own_id=True),
    ServerSentEvent("two\nlines", event="update", id="1"),
    ServerSentEvent("", id="3", has_own_id=True),
]


@given(st.lists(st.integers(0, len(STREAM)), max_size=10))
def test_events_are_the_same_however_the_bytes_come(cuts: list[int]) -> None:
    framer = EventFramer()
    bounds = [0, *sorted(cuts), len(STREAM)]
    events = [event for begin, end in pairwise(bounds) for event in framer.feed(STREAM[begin:end])]
    assert (events, framer.retry_seconds) == (EVENTS, 2.5)


def test_lines_may_come_in_pieces_and_empty_ones_are_passed_over() -> None:
    framer = LineFramer()
    assert [framer.feed(piece) for piece in (b"1\r\n\n2", b"3\n", b"\n4")] == [[b"1"], [b"23"], []]


def test_the_source_says_what_it_promises() -> None:
    url = "https://example.org/firehose?token=secret"
    plain, replayed = cw.sources.http_stream(url), cw.sources.http_stream(url, replays=True)
    assert (plain.name, plain.replay) == ("http_stream(https://example.org/firehose)", Replay.NOT_REPLAYABLE)
    assert replayed.replay == Replay.REPLAYABLE


@pytest.mark.parametrize(
    ("url", "options", "fact"),
    [
        ("ftp://example.org", {}, "url must begin with"),
        ("https://someone:secret@example.org", {}, "must not hold credentials"),
        ("https://example.org", {"format": "xml"}, "is unknown"),
        ("https://example.org", {"format": "ndjson", "replays": True}, "have no ids"),
        ("https://example.org", {"value": "xml"}, "value must be"),
        ("https://example.org", {"idle_seconds": 0}, "idle_seconds must be"),
    ],
)
def test_impossible_settings_are_refused(url: str, options: dict[str, Any], fact: str) -> None:
    with pytest.raises(ConfigurationError, match=fact) as raised:
        cw.sources.http_stream(url, **options)
    assert "secret" not in str(raised.value)

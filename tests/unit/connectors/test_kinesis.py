from __future__ import annotations

from typing import Any

import pytest

from cutwater.connectors import sinks, sources
from cutwater.connectors.contract import Delivery, Replay
from cutwater.connectors.kinesis.sink import BYTES_PER_CALL, _calls
from cutwater.errors import ConfigurationError


def test_a_stream_is_replayable_and_its_shards_have_successors() -> None:
    source = sources.kinesis("s", region="eu-central-1")
    assert (source.name, source.replay, source.has_successors) == ("kinesis(s)", Replay.REPLAYABLE, True)


def test_the_sink_is_plain() -> None:
    assert sinks.kinesis("s").delivery is Delivery.PLAIN


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sources.kinesis(""), "stream must be"),
        (lambda: sources.kinesis("s", start="first"), "start 'first' is unknown"),
        (lambda: sources.kinesis("s", discovery_seconds=0), "discovery_seconds must be"),
        (lambda: sinks.kinesis("s", partition_key="name"), "partition_key must be callable"),
    ],
)
def test_what_can_not_be_is_refused_on_the_users_line(make: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        make()


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [([1] * 1001, [500, 500, 1]), ([BYTES_PER_CALL - 1] * 2, [1, 1]), ([BYTES_PER_CALL + 1, 1], [1, 1]), ([], [])],
)
def test_a_call_takes_a_limited_number_of_records_and_bytes(sizes: list[int], expected: list[int]) -> None:
    entries = [{"Data": bytes(size), "PartitionKey": "k"} for size in sizes]
    assert [len(call) for call in _calls(entries)] == expected

from __future__ import annotations

from typing import Any

import pytest
from pika.exceptions import (
    ConnectionClosedByBroker,
    ProbableAccessDeniedError,
    ProbableAuthenticationError,
    StreamLostError,
)

from cutwater.connectors import sinks, sources
from cutwater.connectors.contract import Delivery, Replay
from cutwater.connectors.failures import PeerError
from cutwater.connectors.rabbitmq.link import translated
from cutwater.connectors.rabbitmq.publisher import Confirms
from cutwater.connectors.rabbitmq.seen_ids import SeenIds
from cutwater.errors import ConfigurationError

URL = "amqp://someone:hidden@example.org:5672/%2F"


def test_a_queue_is_replayable_only_with_ids() -> None:
    with_ids = sources.rabbitmq(URL, "q", id="correlation_id")
    assert (sources.rabbitmq(URL, "q").replay, with_ids.replay) == (Replay.REDELIVERED, Replay.REPLAYABLE)


def test_names_show_no_password() -> None:
    connectors = [
        sources.rabbitmq(URL, "q"),
        sources.rabbitmq_stream(URL, "s"),
        sinks.rabbitmq(URL, exchange="e", routing_key=str),
        sinks.rabbitmq(URL, routing_key="q"),
    ]
    assert [connector.name for connector in connectors] == [
        "rabbitmq(q)", "rabbitmq_stream(s)", "rabbitmq(e)", "rabbitmq(q)",
    ]  # fmt: skip


def test_the_split_of_a_queue_shows_no_password() -> None:
    (split,) = sources.rabbitmq(URL, "q").discover(4).splits
    assert split.id == "example.org:5672/q"


def test_delivery_is_what_was_asked_for() -> None:
    found = [sinks.rabbitmq(URL, routing_key="q", delivery=each).delivery for each in ("plain", "fingerprint")]
    assert found == [Delivery.PLAIN, Delivery.FINGERPRINT]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sources.rabbitmq("http://hidden@host", "q"), "url is not the address"),
        (lambda: sources.rabbitmq(URL, ""), "queue must be"),
        (lambda: sources.rabbitmq(URL, "q", id="reply_to"), "id 'reply_to' is unknown"),
        (lambda: sources.rabbitmq(URL, "q", prefetch=100_000), "prefetch is at most"),
        (lambda: sources.rabbitmq(URL, "q", value="xml"), "value 'xml' is unknown"),
        (lambda: sources.rabbitmq_stream(URL, "s", start="middle"), "start 'middle' is unknown"),
        (lambda: sources.rabbitmq_stream(URL, "s", start=-1), "start -1 is unknown"),
        (lambda: sinks.rabbitmq(URL, routing_key=7), "routing_key must be callable"),
        (lambda: sinks.rabbitmq(URL, routing_key="q", delivery="sometimes"), "delivery 'sometimes' is unknown"),
    ],
)
def test_what_can_not_be_is_refused_on_the_users_line(make: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as raised:
        make()
    assert "hidden" not in str(raised.value)


def test_ids_that_were_seen_are_not_new() -> None:
    seen = SeenIds(0, ["a"], remember=10)
    assert seen.add(["a", "b", "c", "b"], number=4) == [1, 2]


def test_a_position_holds_the_ids_up_to_it_and_none_behind() -> None:
    seen = SeenIds(2, ["a"], remember=10)
    seen.add(["b"], number=3)
    seen.add(["c"], number=4)
    assert [seen.up_to(2), seen.up_to(3), seen.up_to(4)] == [["a"], ["a", "b"], ["a", "b", "c"]]


def test_ids_of_messages_that_were_not_acknowledged_are_never_forgotten() -> None:
    seen = SeenIds(0, [], remember=1)
    for number in range(1, 100):
        seen.add([str(number)], number=number)
    seen.acknowledged(90)
    assert seen.up_to(99) == [str(number) for number in range(90, 100)]


def test_the_last_ids_of_acknowledged_messages_are_remembered() -> None:
    seen = SeenIds(0, [], remember=3)
    for number in range(1, 100):
        seen.add([str(number)], number=number)
        seen.acknowledged(number)
    assert seen.add(["96", "97"], number=101) == [0]


@pytest.mark.parametrize(
    ("confirmed", "up_to"),
    [
        ([(1, False), (2, False)], 2),
        ([(2, False)], 0),
        ([(2, False), (1, False)], 2),
        ([(3, True)], 3),
        ([(2, False), (4, False), (3, True)], 4),
        ([(3, True), (2, True)], 3),
    ],
)
def test_what_is_confirmed_without_a_gap(confirmed: list[tuple[int, bool]], up_to: int) -> None:
    confirms = Confirms()
    for number, multiple in confirmed:
        confirms.add(number, multiple=multiple)
    assert confirms.up_to == up_to


@pytest.mark.parametrize("guess", [ProbableAuthenticationError, ProbableAccessDeniedError])
def test_only_a_server_that_says_so_refuses_a_user(guess: Any) -> None:
    said, died = ConnectionClosedByBroker(403, "ACCESS_REFUSED"), StreamLostError("Connection reset by peer")
    found = [type(translated(guess(repr(cause)), server="S", user="u")) for cause in (said, died)]
    assert found == [ConfigurationError, PeerError]

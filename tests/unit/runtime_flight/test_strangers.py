"""What does a stranger learn, who finds the port of a slot or of the coordinator?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow.flight as flight
import pytest

from cutwater.protocol.ids import AttemptNumber
from cutwater.runtime.flight.control_server import ControlServer
from cutwater.runtime.flight.security import bearer, call_options, connect, derived_token
from cutwater.runtime.seams import ChannelId

from .conftest import JOB_TOKEN, MakeTransport

CHANNEL = ChannelId(AttemptNumber(1), 0, 0, 0)
STRANGERS: dict[str, list[tuple[str, str]]] = {
    "no header": [],
    "a guessed token": [("authorization", bearer("guess"))],
    "a channel that exists": [("cutwater-channel", "1.0.0.0")],
    "a channel that doesn't": [("cutwater-channel", "99.0.0.0")],
    "the attempt's token alone": [("cutwater-channel", "1.0.0.0"), ("cutwater-attempt", bearer("secret"))],
    "a number of thousands of digits": [("cutwater-channel", "9" * 6000)],
    "a token of thousands of characters": [("authorization", bearer("x" * 6000))],
    "no number": [("authorization", bearer(JOB_TOKEN)), ("cutwater-channel", "one.0.0.0")],
    "a long number": [("authorization", bearer(JOB_TOKEN)), ("cutwater-channel", "9" * 6000)],
    "a wrong attempt's token": [
        ("authorization", bearer(JOB_TOKEN)),
        ("cutwater-channel", "1.0.0.0"),
        ("cutwater-attempt", bearer("guess")),
    ],
}


def _answer(address: str, headers: list[tuple[str, str]], call: Callable[[Any, Any], Any]) -> str:
    """What the server says to a call with these headers."""
    options = flight.FlightCallOptions(headers=[(name.encode(), value.encode()) for name, value in headers])
    client = connect(address, None)
    try:
        call(client, options)
    except Exception as error:
        return str(error)
    finally:
        client.close()
    return "let in"


def _exchange(client: Any, options: Any) -> None:
    writer, reader = client.do_exchange(flight.FlightDescriptor.for_command(b"channel"), options=options)
    try:
        reader.read_chunk()
    finally:
        reader.cancel()
        del writer


def _list(client: Any, options: Any) -> None:
    list(client.list_flights(options=options))


@pytest.mark.parametrize("who", STRANGERS)
@pytest.mark.parametrize("call", [_exchange, _list])
def test_every_stranger_at_a_slot_hears_the_same_line(
    make_transport: MakeTransport, who: str, call: Callable[[Any, Any], Any]
) -> None:
    transport = make_transport()
    transport.open_input(CHANNEL, "secret")
    answer = _answer(transport.address, STRANGERS[who], call)
    assert answer.startswith("not allowed. Detail: Unauthenticated")
    assert "Traceback" not in answer


def test_a_member_is_told_to_try_again_while_the_attempt_is_not_there_yet(make_transport: MakeTransport) -> None:
    headers = [("authorization", bearer(JOB_TOKEN)), ("cutwater-channel", "1.0.0.0")]
    assert "not deployed here yet" in _answer(make_transport().address, headers, _exchange)


@pytest.mark.parametrize("who", ["no header", "a guessed token", "a token of thousands of characters"])
@pytest.mark.parametrize("call", [_exchange, _list])
def test_every_stranger_at_the_coordinator_hears_the_same_line(who: str, call: Callable[[Any, Any], Any]) -> None:
    server = _server()
    answer = _answer(server.address, STRANGERS[who], call)
    server.close()
    assert answer.startswith("not allowed. Detail: Unauthenticated")


@pytest.mark.parametrize("frame", [b"", b"m", b"m\xff\xff", b"h", b"mnonsense", b"x"])
def test_a_first_frame_that_registers_nothing_is_answered_without_a_traceback(frame: bytes) -> None:
    server = _server()
    client = connect(server.address, None)
    writer, reader = client.do_exchange(
        flight.FlightDescriptor.for_command(b"control"), options=call_options("control's secret")
    )
    writer.write_metadata(frame)
    with pytest.raises(flight.FlightUnauthenticatedError, match=r"^the first message must register the slot"):
        reader.read_chunk()
    reader.cancel()
    server.close()


def test_the_token_between_slots_does_not_open_the_coordinators_door() -> None:
    server = _server()
    headers = [("authorization", bearer(derived_token("control's secret", "channels")))]
    assert _answer(server.address, headers, _exchange).startswith("not allowed")
    server.close()


def _server() -> ControlServer:
    return ControlServer(
        "127.0.0.1", "control's secret", deliver=lambda slot, message: None, lost=lambda slot, reason: None
    )

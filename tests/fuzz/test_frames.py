"""What can bytes from the network do? Be a message, or be refused; never anything else."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import msgspec
import pyarrow.flight as flight
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cutwater.errors import SerializationError
from cutwater.protocol.elements import Barrier, EndOfInput, Idle, Watermark
from cutwater.protocol.ids import AttemptNumber, CheckpointId, SlotId, TaskId
from cutwater.runtime.failures import FailureReport
from cutwater.runtime.flight import wire
from cutwater.runtime.flight.control_frames import MESSAGE
from cutwater.runtime.flight.control_server import ControlServer
from cutwater.runtime.flight.security import bearer, call_options, connect, end_call, first_header, require_token
from cutwater.runtime.flight.transport import FlightTransport
from cutwater.runtime.messages import (
    ConnectorReport,
    SlotRegistered,
    SplitRequested,
    TaskFailed,
    decode_from_coordinator,
    decode_from_slot,
    encode,
)
from cutwater.runtime.seams import ChannelId

SMALL = st.integers(0, 2**40)
REPORT = st.builds(FailureReport, st.text(), st.text(), st.text(), st.text())
MESSAGES = st.one_of(
    st.builds(SplitRequested, SMALL, st.text(), SMALL),
    st.builds(TaskFailed, SMALL, st.builds(TaskId, st.text(), SMALL), REPORT),
    st.builds(ConnectorReport, SMALL, st.text(), st.binary()),
)
ELEMENTS = st.sampled_from([Barrier(CheckpointId(7)), Watermark(12), Idle(), EndOfInput(complete=True)])


@st.composite
def damaged(draw: st.DrawFn, whole: st.SearchStrategy[bytes]) -> bytes:
    """Bytes that were right once: some changed, some cut off, some put in."""
    data = bytearray(draw(whole))
    for _ in range(draw(st.integers(0, 4))):
        place = draw(st.integers(0, len(data)))
        match draw(st.sampled_from(["change", "cut", "insert"])):
            case "change" if place < len(data):
                data[place] = draw(st.integers(0, 255))
            case "cut":
                del data[place : place + draw(st.integers(1, 8))]
            case _:
                data[place:place] = draw(st.binary(max_size=8))
    return bytes(data)


@given(st.one_of(st.binary(max_size=400), damaged(MESSAGES.map(encode))))
@pytest.mark.parametrize("decode", [decode_from_slot, decode_from_coordinator])
def test_a_message_is_understood_or_refused(decode: Callable[[bytes], Any], data: bytes) -> None:
    try:
        decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):  # both break the line
        return


@given(st.one_of(st.binary(max_size=400), damaged(ELEMENTS.map(lambda element: wire.to_frame(element)[0]))))
def test_an_element_is_understood_or_refused(data: bytes) -> None:
    if not data.startswith(wire.PICKLE_FIRST_BYTE):  # records come from members of the attempt only
        try:
            wire.from_metadata(data)
        except SerializationError:
            return


@given(st.one_of(st.none(), st.integers(), st.text(), st.tuples(st.integers()), st.dictionaries(st.text(), st.text())))
def test_records_that_are_no_list_are_refused(value: Any) -> None:
    with pytest.raises(SerializationError):
        wire.from_metadata(pickle.dumps(value, protocol=5))


@given(
    st.dictionaries(
        st.sampled_from(["authorization", "Authorization", "cutwater-channel", "x"]),
        st.lists(st.one_of(st.text(), st.binary()), max_size=2),
    )
)
def test_any_headers_are_read_and_refused(headers: dict[str, list[str | bytes]]) -> None:
    assert isinstance(first_header(headers, "cutwater-channel"), str)
    with pytest.raises(flight.FlightUnauthenticatedError, match=r"^not allowed$"):
        require_token(headers, "right")


class Doors:
    """A slot and a coordinator that listen, and what the coordinator heard."""

    def __init__(self) -> None:
        self.heard: list[tuple[SlotId, Any]] = []
        self.lost = threading.Event()
        self.server = ControlServer("127.0.0.1", "control", deliver=self._deliver, lost=self._lost)
        self.transport = FlightTransport("127.0.0.1", lambda: None, token="job")
        self.transport.open_input(ChannelId(AttemptNumber(1), 0, 0, 0), "attempt")
        self.to_server = connect(self.server.address, None)
        self.to_slot = connect(self.transport.address, None)

    def call_slot(self, options: flight.FlightCallOptions) -> None:
        writer, reader = self.to_slot.do_exchange(flight.FlightDescriptor.for_command(b"channel"), options=options)
        try:
            reader.read_chunk()
        finally:
            end_call(writer, reader)

    def _deliver(self, slot: SlotId, message: Any) -> None:
        self.heard.append((slot, message))

    def _lost(self, slot: SlotId, reason: str) -> None:
        self.lost.set()

    def close(self) -> None:
        self.to_server.close()
        self.to_slot.close()
        self.server.close()
        self.transport.close()


@pytest.fixture(scope="module")
def doors() -> Iterator[Doors]:
    made = Doors()
    yield made
    made.close()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.one_of(st.binary(max_size=60), damaged(MESSAGES.map(encode))), max_size=4))
def test_a_line_that_carries_nonsense_is_lost_and_others_are_not(doors: Doors, frames: list[bytes]) -> None:
    doors.lost.clear()
    doors.heard.clear()
    writer, reader = doors.to_server.do_exchange(
        flight.FlightDescriptor.for_command(b"control"), options=call_options("control")
    )
    writer.write_metadata(MESSAGE + encode(SlotRegistered(SlotId("slot-0"), "127.0.0.1:1", "here", 1)))
    with suppress(flight.FlightError, OSError, ValueError, StopIteration):  # hung up on, at some point
        for frame in frames:
            writer.write_metadata(MESSAGE + frame)
        writer.done_writing()
        while True:
            reader.read_chunk()
    end_call(writer, reader)
    assert doors.lost.wait(10)
    assert doors.heard[0][0] == "slot-0"
    assert all(slot == "slot-0" for slot, _ in doors.heard)


HEADER = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=300)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(HEADER, HEADER, st.booleans())
def test_a_slot_lets_in_neither_strangers_nor_nonsense(doors: Doors, channel: str, token: str, member: bool) -> None:
    headers = {
        "authorization": bearer("job" if member else token),
        "cutwater-channel": channel,
        "cutwater-attempt": bearer(token),
    }
    options = flight.FlightCallOptions(headers=[(name.encode(), text.encode()) for name, text in headers.items()])
    with pytest.raises((flight.FlightUnauthenticatedError, flight.FlightUnavailableError)) as refused:
        doors.call_slot(options)
    assert "Traceback" not in str(refused.value)
    assert member or str(refused.value).startswith("not allowed")

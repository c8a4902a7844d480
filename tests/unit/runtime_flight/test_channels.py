"""Do elements arrive as they were sent, in order, and no faster than they are taken?"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from cutwater.batches import ObjectBatch
from cutwater.errors import ChannelBrokenError, SerializationError
from cutwater.protocol.elements import Barrier, EndOfInput, Idle, Watermark
from cutwater.protocol.ids import AttemptNumber, CheckpointId
from cutwater.runtime.flight.inbox import QueueLimits
from cutwater.runtime.flight.transport import FlightTransport
from cutwater.runtime.seams import ChannelId

from .conftest import JOB_TOKEN, MakeTransport
from .waiting import take, wait_until


def channel(attempt: int = 1, edge: int = 0, sender: int = 0, receiver: int = 0) -> ChannelId:
    return ChannelId(AttemptNumber(attempt), edge, sender, receiver)


def connected(make_transport: MakeTransport, **options: Any) -> tuple[Any, Any]:
    """Both ends of one channel."""
    sending, receiving = make_transport(**options), make_transport(**options)
    inbox = receiving.open_input(channel(), "secret")
    return sending.open_output(channel(), receiving.address, "secret"), inbox


@dataclass
class Word:
    text: str


ELEMENTS = [
    ObjectBatch([("a", 1), None, [2.5], Word("b")]),
    Watermark(-5),
    Barrier(CheckpointId(2**40)),
    Idle(),
    pa.record_batch({"x": [1, 2, 3], "y": ["a", None, "c"]}),
    ObjectBatch(["later"]),
    pa.record_batch({"x": [4], "y": ["d"]}),
    EndOfInput(),
]


def test_elements_of_every_kind_arrive_in_order(make_transport: MakeTransport) -> None:
    outbox, inbox = connected(make_transport)
    for element in ELEMENTS:
        outbox.send(element)
    assert take(inbox, len(ELEMENTS)) == ELEMENTS


def test_a_channel_that_ended_well_is_not_broken(make_transport: MakeTransport) -> None:
    outbox, inbox = connected(make_transport)
    outbox.send(EndOfInput())
    take(inbox, 1)
    assert wait_until(lambda: _threads("cutwater-out") == [])
    assert (inbox.poll(), outbox.has_room()) == (None, True)


def test_dictionary_columns_may_change_their_dictionary(make_transport: MakeTransport) -> None:
    outbox, inbox = connected(make_transport)
    batches = [pa.record_batch({"x": pa.array(values).dictionary_encode()}) for values in (["a", "b"], ["c"])]
    for batch in batches:
        outbox.send(batch)
    assert [batch.to_pydict() for batch in take(inbox, 2)] == [{"x": ["a", "b"]}, {"x": ["c"]}]


def test_values_of_a_class_without_a_module_arrive(make_transport: MakeTransport) -> None:
    outbox, inbox = connected(make_transport)
    local = type("Local", (), {"__module__": "__main__", "number": 7})
    outbox.send(ObjectBatch([local()]))
    assert take(inbox, 1)[0].values[0].number == 7


def test_values_that_cannot_be_copied_are_named_when_sent(make_transport: MakeTransport) -> None:
    outbox, _ = connected(make_transport)
    with pytest.raises(SerializationError, match="records can't be sent"):
        outbox.send(ObjectBatch([threading.Lock()]))


def test_a_changed_schema_is_named_when_sent(make_transport: MakeTransport) -> None:
    outbox, _ = connected(make_transport)
    outbox.send(pa.record_batch({"x": [1]}))
    with pytest.raises(SerializationError, match="the schema of edge 0 changed"):
        outbox.send(pa.record_batch({"x": ["text"]}))


def test_a_receiver_that_does_not_poll_stops_its_sender(make_transport: MakeTransport) -> None:
    outbox, inbox = connected(make_transport, limits=QueueLimits(elements_max=4, bytes_max=1 << 20))
    batch = ObjectBatch([b"x" * 200_000])
    sent = 0
    while sent < 500 and wait_until(outbox.has_room, seconds=0.5):
        outbox.send(batch)
        sent += 1
    assert len(inbox) == 4
    assert sent < 100  # 20 MB: two queues, and what gRPC holds
    assert take(inbox, sent) == [batch] * sent
    assert wait_until(outbox.has_room)


def test_the_loop_is_woken_when_there_is_room_again(make_transport: MakeTransport) -> None:
    woken = threading.Event()
    sending = make_transport(on_ready=woken.set, limits=QueueLimits(elements_max=4, bytes_max=1 << 20))
    receiving = make_transport(limits=QueueLimits(elements_max=4, bytes_max=1 << 20))
    inbox = receiving.open_input(channel(), "secret")
    outbox = sending.open_output(channel(), receiving.address, "secret")
    sent = 0
    while wait_until(outbox.has_room, seconds=0.5):
        outbox.send(ObjectBatch([b"x" * 200_000]))
        sent += 1
    woken.clear()
    assert not outbox.has_room()
    take(inbox, sent)
    assert woken.wait(5)
    assert outbox.has_room()


def test_a_full_channel_does_not_hold_back_another_to_the_same_slot(make_transport: MakeTransport) -> None:
    sending, receiving = make_transport(), make_transport()
    receiving.open_input(channel(edge=0), "secret")
    other = receiving.open_input(channel(edge=1), "secret")
    full = sending.open_output(channel(edge=0), receiving.address, "secret")
    free = sending.open_output(channel(edge=1), receiving.address, "secret")
    while wait_until(full.has_room, seconds=0.3):
        full.send(ObjectBatch([b"x" * 1_000_000]))
    batches = [ObjectBatch([number, b"y" * 1_000_000]) for number in range(50)]
    for batch in batches:
        free.send(batch)
    assert take(other, 50) == batches


def test_a_wrong_token_is_refused_for_good(make_transport: MakeTransport) -> None:
    sending, receiving = make_transport(), make_transport()
    inbox = receiving.open_input(channel(), "secret")
    outbox = sending.open_output(channel(), receiving.address, "guess")
    outbox.send(ObjectBatch([1]))
    assert wait_until(lambda: _raises(outbox.has_room))
    with pytest.raises(ChannelBrokenError, match="not allowed"):
        outbox.has_room()
    assert inbox.poll() is None


def test_a_sender_of_an_attempt_that_is_over_is_refused_for_good(make_transport: MakeTransport) -> None:
    sending, receiving = make_transport(), make_transport()
    receiving.open_input(channel(attempt=1), "secret")
    receiving.drop(AttemptNumber(1))
    outbox = sending.open_output(channel(attempt=1), receiving.address, "secret")
    assert wait_until(lambda: _raises(outbox.has_room))
    with pytest.raises(ChannelBrokenError, match="attempt 1 is over here"):
        outbox.has_room()


def test_a_second_sender_of_a_channel_is_refused(make_transport: MakeTransport) -> None:
    outbox, inbox = connected(make_transport)
    outbox.send(ObjectBatch([1]))
    take(inbox, 1)
    second = make_transport().open_output(channel(), outbox._peer.address, "secret")
    assert wait_until(lambda: _raises(second.has_room))
    outbox.send(ObjectBatch([2]))
    assert take(inbox, 1) == [ObjectBatch([2])]


def test_a_sender_waits_for_a_receiver_that_is_not_ready_yet(make_transport: MakeTransport) -> None:
    sending, receiving = make_transport(), make_transport()
    outbox = sending.open_output(channel(), receiving.address, "secret")
    outbox.send(ObjectBatch([1]))
    assert not wait_until(lambda: _raises(outbox.has_room), seconds=0.3)
    inbox = receiving.open_input(channel(), "secret")
    assert take(inbox, 1) == [ObjectBatch([1])]


def test_a_receiver_that_never_gets_ready_breaks_the_channel(make_transport: MakeTransport) -> None:
    sending, receiving = make_transport(connect_timeout_seconds=0.2), make_transport()
    outbox = sending.open_output(channel(), receiving.address, "secret")
    assert wait_until(lambda: _raises(outbox.has_room))
    with pytest.raises(ChannelBrokenError, match="attempt 1 is not deployed here yet"):
        outbox.has_room()


def test_an_address_where_nobody_listens_breaks_the_channel(make_transport: MakeTransport) -> None:
    sending = make_transport(connect_timeout_seconds=0.2)
    outbox = sending.open_output(channel(), "127.0.0.1:1", "secret")
    assert wait_until(lambda: _raises(outbox.has_room))


def test_dropping_at_the_sender_frees_a_blocked_channel_at_both_ends(make_transport: MakeTransport) -> None:
    sending, receiving = make_transport(), make_transport()
    inbox = receiving.open_input(channel(), "secret")
    outbox = sending.open_output(channel(), receiving.address, "secret")
    while wait_until(outbox.has_room, seconds=0.3):
        outbox.send(ObjectBatch([b"x" * 1_000_000]))
    sending.drop(AttemptNumber(1))
    receiving.drop(AttemptNumber(1))
    assert wait_until(lambda: _threads("cutwater-out") == [], seconds=2)
    assert (inbox.poll(), outbox.has_room()) == (None, False)
    outbox.send(ObjectBatch([1]))  # into the void


def test_dropping_at_the_receiver_only_ends_its_thread(make_transport: MakeTransport) -> None:
    outbox, inbox = connected(make_transport)
    outbox.send(ObjectBatch([1]))
    take(inbox, 1)
    # Both ends of the link have begun: what they need is not counted as a thread that stayed.
    assert wait_until(lambda: sum(thread.name == "cutwater-link" for thread in threading.enumerate()) == 2)
    before, _ = _resources()
    inbox.close()
    assert wait_until(lambda: _raises(outbox.has_room), seconds=5)
    assert wait_until(lambda: _resources()[0] < before)


def test_a_hundred_attempts_leave_no_thread_and_no_connection(make_transport: MakeTransport) -> None:
    transports = [make_transport(), make_transport()]
    _exchange(transports, attempt=1)
    before = _resources()
    for attempt in range(2, 102):
        _exchange(transports, attempt)
    assert wait_until(lambda: _resources() <= before, seconds=5), (before, _resources())


def _exchange(transports: list[FlightTransport], attempt: int) -> None:
    """All to all over two edges; the attempt is dropped with its channels open."""
    ids = [channel(attempt, edge, sender, receiver) for edge in (0, 1) for sender in (0, 1) for receiver in (0, 1)]
    inboxes = [transports[one.receiver].open_input(one, f"token {attempt}") for one in ids]
    for one in ids:
        outbox = transports[one.sender].open_output(one, transports[one.receiver].address, f"token {attempt}")
        outbox.send(ObjectBatch([attempt]))
    for inbox in inboxes:
        assert take(inbox, 1) == [ObjectBatch([attempt])]
    for transport in transports:
        transport.drop(AttemptNumber(attempt))
    assert wait_until(lambda: _threads("cutwater-out") == [], seconds=5)


def _resources() -> tuple[int, int]:
    # Not `threading.active_count`, which goes on counting threads of gRPC's that have left Python.
    return len(sys._current_frames()), len(os.listdir("/proc/self/fd"))


def _send_forever(address: str) -> None:
    transport = FlightTransport("127.0.0.1", lambda: None, token=JOB_TOKEN)
    outbox = transport.open_output(channel(), address, "secret")
    outbox.send(ObjectBatch([os.getpid()]))
    threading.Event().wait()


def _receive_forever(pipe: Any) -> None:
    transport = FlightTransport("127.0.0.1", lambda: None, token=JOB_TOKEN)
    inbox = transport.open_input(channel(), "secret")
    pipe.send(transport.address)
    take(inbox, 1)
    pipe.send("taken")
    threading.Event().wait()


def test_a_killed_sender_breaks_the_channel_at_once(make_transport: MakeTransport) -> None:
    receiving = make_transport()
    inbox = receiving.open_input(channel(), "secret")
    process = multiprocessing.get_context("spawn").Process(target=_send_forever, args=(receiving.address,), daemon=True)
    process.start()
    (batch,) = take(inbox, 1)
    os.kill(batch.values[0], signal.SIGKILL)
    assert wait_until(lambda: _raises(inbox.poll), seconds=0.5)
    with pytest.raises(ChannelBrokenError, match="edge 0 from subtask 0 to 0 broke"):
        inbox.poll()


def test_a_killed_receiver_breaks_the_channel(make_transport: MakeTransport) -> None:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_receive_forever, args=(there,), daemon=True)
    process.start()
    outbox = make_transport().open_output(channel(), here.recv(), "secret")
    outbox.send(ObjectBatch([1]))
    assert here.recv() == "taken"
    process.kill()
    assert wait_until(lambda: _raises(outbox.has_room), seconds=3)


def _threads(prefix: str) -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith(prefix)]


def _raises(call: Any) -> bool:
    try:
        call()
    except ChannelBrokenError:
        return True
    return False

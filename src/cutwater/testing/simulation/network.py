"""How do messages and elements travel, and how does a connection end?

Each direction of a line and each channel is FIFO; between them everything may overtake everything. A connection breaks
on each side on its own, some time after its cause; what was under way then arrives or doesn't.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable
from functools import partial

from cutwater.errors import ChannelBrokenError
from cutwater.protocol.ids import AttemptNumber
from cutwater.runtime.messages import FromCoordinator, FromSlot, decode_from_coordinator, decode_from_slot, encode
from cutwater.runtime.seams import ChannelId, Element
from cutwater.testing.simulation.copies import bytes_of
from cutwater.testing.simulation.world import InvariantBroken, Process, World

SLOW_CHANNEL_SECONDS = 0.01


class OneWay:
    """One direction of a line: bytes in order, each after a delay of its own."""

    def __init__(self, world: World, receive: Callable[[bytes], None]) -> None:
        self._world = world
        self._receive = receive
        self._latest = 0.0
        self.cut = False
        self._lost = False

    def send(self, data: bytes) -> None:
        if not self.cut:
            world = self._world
            self._latest = max(self._latest, world.now + world.delay(world.conditions.line_seconds))
            world.at(self._latest, partial(self._deliver, data))

    def close(self, *, lose_the_rest: bool) -> None:
        self.cut = True
        self._lost = lose_the_rest

    def after_the_rest(self, delay_seconds: float) -> float:
        """A moment behind everything that is under way."""
        return max(self._latest, self._world.now + delay_seconds)

    def _deliver(self, data: bytes) -> None:
        if not self._lost:
            self._receive(data)


class Line:
    """The control line between a coordinator and one of its slots."""

    def __init__(
        self,
        world: World,
        name: str,
        *,
        to_slot: Callable[[FromCoordinator], None],
        to_coordinator: Callable[[FromSlot], None],
    ) -> None:
        self._world = world
        self._name = name
        self._to_slot = to_slot
        self._to_coordinator = to_coordinator
        self.down = OneWay(world, self._arrive_down)
        self.up = OneWay(world, self._arrive_up)

    def send_down(self, message: FromCoordinator) -> None:
        self.down.send(encode(message))

    def send_up(self, message: FromSlot) -> None:
        self.up.send(encode(message))

    def cut(self) -> None:
        """What is under way may still arrive, or not."""
        if not self.down.cut:
            random = self._world.random
            self._world.note("line of %s is cut", self._name)
            self.down.close(lose_the_rest=random.random() < 0.5)
            self.up.close(lose_the_rest=random.random() < 0.5)

    def _arrive_down(self, data: bytes) -> None:
        message: FromCoordinator = decode_from_coordinator(data)
        self._world.note("%s ← %s", self._name, message)
        self._to_slot(message)

    def _arrive_up(self, data: bytes) -> None:
        message: FromSlot = decode_from_slot(data)
        self._world.note("%s → %s", self._name, message)
        self._to_coordinator(message)


class Channel:
    """A data channel between two slots; both ends."""

    def __init__(self, network: Network, channel: ChannelId, sender: Process, receiver: Process) -> None:
        self.id = channel
        self._network = network
        self.sender = sender
        self.receiver = receiver
        self._world = network.world
        self._seconds = _latency_seconds(network.world)
        self._arrived: deque[Element] = deque()
        self._under_way = 0
        self._latest = 0.0
        self._sender_waits = False
        self._receiver_broken = False
        self._sender_broken = False
        self._closed = False
        self._hangs = False
        self.sender_end = ChannelEnd(self, of_sender=True)
        self.receiver_end = ChannelEnd(self, of_sender=False)

    def hang(self) -> None:
        """From now on it neither delivers nor breaks: packets vanish, and no end hears of it."""
        self._world.note("%s hangs", self._name)
        self._hangs = True

    # The sender's end.

    def send(self, element: Element) -> None:
        if not self._closed:
            world = self._world
            self._under_way += 1
            self._latest = max(self._latest, world.now + world.delay(self._seconds))
            # Bytes, as on a wire: the receiver must not share objects with the sender.
            world.at(self._latest, partial(self._deliver, bytes_of(element)))

    def has_room(self) -> bool:
        if self._sender_broken:
            raise ChannelBrokenError(f"the channel {self._name} broke", detail=f"seen by {self.sender.name}")
        has_room = self._under_way + len(self._arrived) < self._world.conditions.room
        self._sender_waits = not has_room
        return has_room

    # The receiver's end.

    def poll(self) -> Element | None:
        if self._arrived:
            if self._sender_waits:
                self._sender_waits = False
                self._world.after(self._world.delay(self._world.conditions.channel_seconds), self.sender.wake)
            return self._arrived.popleft()
        if self._receiver_broken:
            raise ChannelBrokenError(f"the channel {self._name} broke", detail=f"seen by {self.receiver.name}")
        return None

    def __len__(self) -> int:
        return len(self._arrived)

    def _deliver(self, data: bytes) -> None:
        if self._hangs:
            return  # and it stays under way: its sender gets no room back
        self._under_way -= 1
        if self._closed or not self.receiver.alive:
            return
        element = pickle.loads(data)
        self._world.note("%s carries %s", self._name, element)
        self._network.carries(self.receiver.owner, self.id, element)
        self.receiver_end.heard += 1
        self._arrived.append(element)
        self.receiver.wake()

    def close(self) -> None:
        """The connection ends: each side hears of it after a while, and what is under way may be lost."""
        if self._hangs or (self._closed and self._receiver_broken):
            return
        world = self._world
        if world.random.random() < 0.5:
            self._closed = True
        notice = world.conditions.notice_seconds
        world.at(max(self._latest, world.now + world.delay(notice)), self._break_receiver)
        world.after(world.delay(notice), self._break_sender)

    def _break_receiver(self) -> None:
        self._closed = self._receiver_broken = True
        self.receiver.wake()

    def _break_sender(self) -> None:
        self._sender_broken = True
        self.sender.wake()

    # Pings: answered by the other process as long as it lives, whatever its actor is doing.

    def carry_sign(self, to: ChannelEnd, *, wants_answer: bool) -> None:
        world = self._world
        world.after(world.delay(world.conditions.channel_seconds), partial(self._hear, to, wants_answer))

    def _hear(self, end: ChannelEnd, wants_answer: bool) -> None:
        if self._hangs or end.signs_of_life() is None:
            return
        end.heard += 1
        if wants_answer:
            self.carry_sign(end.other, wants_answer=False)

    def broken_at(self, *, sender: bool) -> bool:
        process = self.sender if sender else self.receiver
        return not process.alive or (self._sender_broken if sender else self._receiver_broken)

    @property
    def _name(self) -> str:
        return f"{self.id.edge}:{self.id.sender}→{self.id.receiver}@{self.id.attempt}"


def _latency_seconds(world: World) -> float:
    """Of one channel: what comes over a slow one is overtaken by what comes over others, again and again."""
    conditions = world.conditions
    is_slow = conditions.slow_channels and world.random.random() < conditions.slow_channels
    return SLOW_CHANNEL_SECONDS if is_slow else conditions.channel_seconds


class ChannelEnd:
    """A `Connection`: here each channel is one of its own."""

    def __init__(self, channel: Channel, *, of_sender: bool) -> None:
        self._channel = channel
        self._of_sender = of_sender
        self.heard = 0

    @property
    def other(self) -> ChannelEnd:
        return self._channel.receiver_end if self._of_sender else self._channel.sender_end

    @property
    def peer(self) -> str:
        return self._channel.receiver.name if self._of_sender else self._channel.sender.name

    def signs_of_life(self) -> int | None:
        return None if self._channel.broken_at(sender=self._of_sender) else self.heard

    def ping(self) -> None:
        self._channel.carry_sign(self.other, wants_answer=True)


class Network:
    """All data channels there are, and who may connect to whom."""

    def __init__(self, world: World) -> None:
        self.world = world
        #: Called with every element that arrives, and whose life it is in.
        self.carries: Callable[[int, ChannelId, Element], None] = _nobody_looks
        self._inputs: dict[tuple[str, ChannelId], InputEnd] = {}
        self._open: dict[tuple[str, ChannelId], Channel] = {}
        #: Pairs of slots, and until when.
        self._partitioned: dict[frozenset[Process], float] = {}

    def expect(self, address: str, channel: ChannelId, receiver: Process, token: str) -> InputEnd:
        made = self._inputs[address, channel] = InputEnd(receiver, token)
        return made

    def connect(self, address: str, channel: ChannelId, sender: Process, token: str) -> Channel:
        end = self._inputs.get((address, channel))
        if end is not None and end.token != token:
            raise InvariantBroken("a connection with the token of another attempt", str(channel))
        if end is None or not end.receiver.alive:
            refused = Channel(self, channel, sender, sender)
            refused.close()
            return refused
        opened = self._open[address, channel] = end.channel = Channel(self, channel, sender, end.receiver)
        if self._partitioned.get(frozenset((sender, end.receiver)), 0.0) > self.world.now:
            opened.hang()
        return opened

    def drop(self, process: Process, attempt: AttemptNumber | None = None) -> None:
        """The process leaves the channels of an attempt, or all of them."""
        for key, end in list(self._inputs.items()):
            if end.receiver is process and attempt in (None, key[1].attempt):
                del self._inputs[key]
        for key, channel in list(self._open.items()):
            if process in (channel.sender, channel.receiver) and attempt in (None, channel.id.attempt):
                channel.close()
                del self._open[key]

    def partition(self, one: Process, other: Process, *, seconds: float) -> None:
        """For so long nothing gets from one to the other, over no channel; both still reach everybody else."""
        self._partitioned[frozenset((one, other))] = self.world.now + seconds
        for channel in self.channels():
            if {channel.sender, channel.receiver} == {one, other}:
                channel.hang()

    def ends(self, process: Process, attempt: AttemptNumber) -> list[ChannelEnd]:
        """The ends that the process has of the channels of an attempt."""
        of_attempt = [channel for channel in self._open.values() if channel.id.attempt == attempt]
        sending = [channel.sender_end for channel in of_attempt if channel.sender is process]
        return sending + [channel.receiver_end for channel in of_attempt if channel.receiver is process]

    def channels(self) -> list[Channel]:
        return list(self._open.values())


class InputEnd:
    """A receiver's end, also before the sender has connected."""

    def __init__(self, receiver: Process, token: str) -> None:
        self.receiver = receiver
        self.token = token
        self.channel: Channel | None = None

    def poll(self) -> Element | None:
        return None if self.channel is None else self.channel.poll()

    def __len__(self) -> int:
        return 0 if self.channel is None else len(self.channel)


class SimulatedTransport:
    """`Transport` of one slot."""

    def __init__(self, network: Network, process: Process) -> None:
        self._network = network
        self._process = process

    @property
    def address(self) -> str:
        return f"sim://{self._process.name}"

    def open_input(self, channel: ChannelId, token: str) -> InputEnd:
        return self._network.expect(self.address, channel, self._process, token)

    def open_output(self, channel: ChannelId, address: str, token: str) -> Channel:
        return self._network.connect(address, channel, self._process, token)

    def connections(self, attempt: AttemptNumber) -> list[ChannelEnd]:
        return self._network.ends(self._process, attempt)

    def drop(self, attempt: AttemptNumber) -> None:
        self._network.drop(self._process, attempt)


def _nobody_looks(life: int, channel: ChannelId, element: Element) -> None:
    pass

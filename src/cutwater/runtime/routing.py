"""Which channel does a record leave by?

A router cuts a batch into the parts that each receiver gets. Parts are collected per channel and sent when enough
rows are there, when the task has nothing else to do, or when a control element must follow them: batches are large
when the stream is dense and small when it is thin.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from cutwater.batches import Batch, ObjectBatch, joined, take_rows
from cutwater.graph.keys import KeySelector
from cutwater.graph.model import ExecutionEdge, Partitioning
from cutwater.operators.user_code import keys_of
from cutwater.protocol.elements import Control
from cutwater.protocol.key_groups import KeyGroups, subtask_of
from cutwater.runtime.channels import LocalChannel
from cutwater.runtime.seams import OutputChannel
from cutwater.state.columnar.key_groups import RowRouting, refuse_null_keys
from cutwater.state.columnar.key_index import can_be_indexed
from cutwater.state.copies import copied_batch

OBJECT_ROWS_MAX = 2048
TYPED_ROWS_MAX = 16_384
#: A typed part of this size is sent by itself: to join it with others costs more than it saves.
TYPED_ROWS_ALONE = 8192
KNOWN_KEYS_MAX = 262_144


class BufferedChannel:
    """A channel with the rows that wait to fill a batch."""

    __slots__ = ("_channel", "_parts", "_rows", "is_local")

    def __init__(self, channel: OutputChannel) -> None:
        self._channel = channel
        #: The receiver gets the very objects that were sent.
        self.is_local = isinstance(channel, LocalChannel)
        self._parts: list[Batch] = []
        self._rows = 0

    def add(self, part: Batch) -> None:
        is_typed = type(part) is not ObjectBatch
        if is_typed and part.num_rows >= TYPED_ROWS_ALONE:
            self.flush()
            self._channel.send(part)
            return
        self._parts.append(part)
        self._rows += part.num_rows
        if self._rows >= (TYPED_ROWS_MAX if is_typed else OBJECT_ROWS_MAX):
            self.flush()

    def flush(self) -> None:
        if self._parts:
            for batch in joined(self._parts):
                self._channel.send(batch)
            self._parts = []
            self._rows = 0

    def send_control(self, element: Control) -> None:
        self.flush()
        self._channel.send(element)

    def has_room(self) -> bool:
        return self._channel.has_room()


class Router(ABC):
    """Distributes the batches of one edge over the receiver's tasks."""

    def __init__(self) -> None:
        self.channels: list[BufferedChannel] = []

    def connect(self, channels: Sequence[OutputChannel]) -> None:
        """The channels to the receiver's subtasks, in order. Before the first batch."""
        self.channels = [BufferedChannel(channel) for channel in channels]

    @abstractmethod
    def route(self, batch: Batch) -> None: ...

    def send_control(self, element: Control) -> None:
        """To every receiver, behind all that was routed."""
        for channel in self.channels:
            channel.send_control(element)


class ForwardRouter(Router):
    """To the one receiver there is: the same subtask (forward), or the only one (global)."""

    def route(self, batch: Batch) -> None:
        self.channels[0].add(batch)


class BroadcastRouter(Router):
    """Every record to every receiver."""

    def route(self, batch: Batch) -> None:
        several = len(self.channels) > 1
        for channel in self.channels:
            # What goes to other slots becomes bytes only later; a receiver in this one may change its records at once.
            channel.add(copied_batch(batch) if several and channel.is_local else batch)


class RebalanceRouter(Router):
    """Whole batches in turn, starting at a different receiver in every sender."""

    def __init__(self, first: int) -> None:
        super().__init__()
        self._turn = first

    def route(self, batch: Batch) -> None:
        self.channels[self._turn % len(self.channels)].add(batch)
        self._turn += 1


class _ChannelOfKey(dict[Any, int]):
    """Remembers the channel of each key seen; a hit costs one dictionary look-up."""

    def __init__(self, max_parallelism: int, receivers: int) -> None:
        super().__init__()
        self._groups = KeyGroups(max_parallelism)
        self._channels = [subtask_of(group, receivers, max_parallelism) for group in range(max_parallelism)]

    def check(self, key: Any) -> None:
        """Raises `KeyTypeError` if this can't be a key."""
        self._groups.of(key)

    def __missing__(self, key: Any) -> int:
        if len(self) >= KNOWN_KEYS_MAX:
            self.clear()
        channel = self[key] = self._channels[self._groups.of(key)]
        return channel


class HashRouter(Router):
    """Records of one key always to the same receiver."""

    def __init__(self, key: KeySelector, max_parallelism: int, receivers: int, operator: str) -> None:
        super().__init__()
        self._key = key
        self._operator = operator
        self._channel_of_key = _ChannelOfKey(max_parallelism, receivers)
        self._rows = RowRouting(max_parallelism=max_parallelism, receivers=receivers)

    def route(self, batch: Batch) -> None:
        channels = self.channels
        columns = self._typed_keys(batch)
        if len(channels) == 1:
            channels[0].add(batch)
            return
        if columns is not None:
            for channel, part in zip(channels, self._rows.parts(batch, columns), strict=True):
                if part.num_rows:
                    channel.add(part)
            return
        keys = keys_of(self._key, batch, operator=self._operator)
        try:
            self._send(batch, keys)
        except TypeError:
            for key in keys:
                self._channel_of_key.check(key)
            raise

    def _send(self, batch: Batch, keys: list[Any]) -> None:
        channels, channel_of_key = self.channels, self._channel_of_key
        if isinstance(batch, ObjectBatch) and batch.times is None:
            buckets: list[list[Any]] = [[] for _ in channels]
            for key, value in zip(keys, batch.values, strict=True):
                buckets[channel_of_key[key]].append(value)
            for channel, bucket in zip(channels, buckets, strict=True):
                if bucket:
                    channel.add(ObjectBatch(bucket))
            return
        indices: list[list[int]] = [[] for _ in channels]
        for index, key in enumerate(keys):
            indices[channel_of_key[key]].append(index)
        for channel, rows in zip(channels, indices, strict=True):
            if rows:
                channel.add(take_rows(batch, rows))

    def _typed_keys(self, batch: Batch) -> list[pa.Array] | None:
        """The key's columns, if all of them can be hashed without Python."""
        names = self._key.columns
        if not names or isinstance(batch, ObjectBatch) or not set(names) <= set(batch.schema.names):
            return None
        columns = [batch.column(name) for name in names]
        if not all(can_be_indexed(column.type) for column in columns):
            return None
        refuse_null_keys(batch, names, operator=self._operator)
        return columns


def router_of(edge: ExecutionEdge, *, subtask: int, receivers: int, max_parallelism: int) -> Router:
    """The router for an edge, in the sender's subtask."""
    match edge.partitioning:
        case Partitioning.FORWARD | Partitioning.GLOBAL:
            return ForwardRouter()
        case Partitioning.BROADCAST:
            return BroadcastRouter()
        case Partitioning.REBALANCE:
            return RebalanceRouter(subtask)
        case Partitioning.HASH:
            assert edge.key is not None
            return HashRouter(edge.key, max_parallelism, receivers, edge.receiver)


def receivers_of(partitioning: Partitioning, *, sender: int, receivers: int) -> range:
    """The subtasks that a sender has a channel to."""
    match partitioning:
        case Partitioning.FORWARD:
            return range(sender, sender + 1)
        case Partitioning.GLOBAL:
            return range(1)
        case Partitioning.BROADCAST | Partitioning.REBALANCE | Partitioning.HASH:
            return range(receivers)


class OutputGate:
    """All outputs of one task."""

    def __init__(self, routers: Sequence[Router]) -> None:
        self._routers = list(routers)
        self._channels: list[BufferedChannel] = []

    def connected(self) -> None:
        """Every router has its channels now."""
        self._channels = [channel for router in self._routers for channel in router.channels]

    def has_room(self) -> bool:
        return all(channel.has_room() for channel in self._channels)

    def flush(self) -> None:
        for channel in self._channels:
            channel.flush()

    def broadcast(self, element: Control) -> None:
        for channel in self._channels:
            channel.send_control(element)

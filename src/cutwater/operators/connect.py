"""How do two streams of different kinds share one function and its state?

Port 0 is the first stream, port 1 the second. Connected streams may share keyed state; a broadcast second stream is
seen in full by every task, which keeps what it learns from it in its own copy of the broadcast state.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

import cloudpickle
import msgspec

from cutwater.batches import Batch
from cutwater.dead_letters import OnError
from cutwater.errors import UserError
from cutwater.graph.keys import KeySelector
from cutwater.operators.contract import FrozenList, OperatorContext, OperatorSnapshot
from cutwater.operators.process import FunctionContext, FunctionOperator, ProcessFunction, process_method_of
from cutwater.protocol.ids import CheckpointId
from cutwater.state.contract import KeyedBackend

BROADCAST_STATE = "broadcast"


class ConnectOperator(FunctionOperator):
    """Calls `process1` or `process2` (record, context), or `map1` or `map2` (record), by the record's stream.

    Timers of both streams' keys come to one `on_timer`.
    """

    def __init__(
        self, function: Any, keys: tuple[KeySelector, KeySelector] | None = None, on_error: OnError = "fail"
    ) -> None:
        super().__init__(function, on_error)
        self._keys: tuple[KeySelector, KeySelector] | tuple[None, None] = keys or (None, None)
        self._maps = _methods_of(function, "map1", "map2")
        self._processes = _methods_of(function, "process1", "process2")
        if self._maps is None and self._processes is None:
            raise UserError(
                f'an object of type "{type(function).__name__}" can\'t process two streams',
                hint="give it the methods map1(self, record) and map2, or process1(self, record, context) and process2",
            )
        if self._failed is not None:
            self._processes = self._guarded_methods()

    def process(self, batch: Batch, port: int) -> None:
        if self._processes is not None:
            self._run(self._processes[port], batch, context=self._function_context, key=self._keys[port])
        elif self._maps is not None:
            self._map(self._maps[port], batch, key=self._keys[port])

    def _is_keyed(self) -> bool:
        return self._keys[0] is not None

    def _guarded_methods(self) -> tuple[ProcessFunction, ProcessFunction]:
        if self._processes is not None:
            return self._guarded(self._processes[0]), self._guarded(self._processes[1])
        assert self._maps is not None, "checked by the constructor"
        first, second = self._maps
        return self._guarded(partial(_map, first), first), self._guarded(partial(_map, second), second)


class BroadcastContext(FunctionContext):
    """Has the broadcast state too: to read in `process`, to change in `process_broadcast`."""

    __slots__ = ("broadcast_state",)

    broadcast_state: Mapping[Any, Any]


class BroadcastConnectOperator(FunctionOperator):
    """`process` sees the records of port 0 (by key, if there is one), `process_broadcast` all of port 1.

    A broadcast record that fails fails the job, whatever `on_error` says: tasks that skip it and tasks that don't would
    have different state.
    """

    def __init__(self, function: Any, key: KeySelector | None = None, on_error: OnError = "fail") -> None:
        super().__init__(function, on_error)
        self._key = key
        self._process = self._guarded(process_method_of(function))
        self._process_broadcast: ProcessFunction | None = getattr(function, "process_broadcast", None)
        if self._process_broadcast is None:
            raise UserError(
                f'an object of type "{type(function).__name__}" can\'t take in a broadcast stream',
                hint="give it a method process_broadcast(self, record, context) that changes context.broadcast_state",
            )

    def open(self, context: OperatorContext) -> None:
        self._state: dict[Any, Any] = _restored_state(context.restored_lists.get(BROADCAST_STATE, []))
        self._broadcast_context = BroadcastContext(
            context, None, no_state_hint="use keyed state in process: a broadcast record belongs to no key"
        )
        self._broadcast_context.broadcast_state = self._state
        self._broadcast_context._sharing.begin()
        super().open(context)

    def process(self, batch: Batch, port: int) -> None:
        if port == 0:
            self._run(self._process, batch, context=self._function_context, key=self._key)
        else:
            assert self._process_broadcast is not None, "checked by the constructor"
            self._run(self._process_broadcast, batch, context=self._broadcast_context, key=None)

    def freeze(self, checkpoint: CheckpointId) -> OperatorSnapshot:
        # Pickled here and now, since the function may change values in place behind the barrier. Every task has seen
        # the same records, so any copy would do on restore; all are stored, as none knows who will be there.
        item = msgspec.msgpack.encode((self.context.subtask, cloudpickle.dumps(self._state)))
        frozen = super().freeze(checkpoint)
        return replace(frozen, lists=(FrozenList(BROADCAST_STATE, (item,), "union"), *frozen.lists))

    def _is_keyed(self) -> bool:
        return self._key is not None

    def _contexts(self) -> Iterator[FunctionContext]:
        yield from super()._contexts()
        yield self._broadcast_context

    def _make_function_context(self, backend: KeyedBackend | None) -> FunctionContext:
        made = BroadcastContext(self.context, backend)
        made.broadcast_state = MappingProxyType(self._state)
        made._sharing.begin()
        return made


def _map(function: Callable[[Any], Any], record: Any, context: FunctionContext) -> None:
    context.emit(function(record))


def _restored_state(items: list[bytes]) -> dict[Any, Any]:
    """The copy of the lowest subtask, so that all tasks go on from the same one."""
    copies: list[tuple[int, bytes]] = [msgspec.msgpack.decode(item, type=tuple[int, bytes]) for item in items]
    if not copies:
        return {}
    state: dict[Any, Any] = pickle.loads(min(copies, key=lambda copy: copy[0])[1])
    return state


def _methods_of(function: Any, first: str, second: str) -> tuple[Callable[..., Any], Callable[..., Any]] | None:
    methods = getattr(function, first, None), getattr(function, second, None)
    return None if methods[0] is None or methods[1] is None else (methods[0], methods[1])

"""How does a user's function with state and side outputs meet the stream?

The function is an object with `process(record, context)` and, if it likes, `open(context)` and `close()`; or a plain
function of record and context. What it yields, returns in a list, or emits through the context leaves as one batch
per input batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from cutwater.batches import Batch, ObjectBatch, rows_of
from cutwater.errors import UserError
from cutwater.graph.keys import KeySelector
from cutwater.operators.contract import Operator, OperatorContext, OperatorSnapshot
from cutwater.operators.user_code import keys_of, map_rows, name_of, raise_user_error
from cutwater.protocol.ids import CheckpointId
from cutwater.state.contract import (
    Aggregate,
    AggregatingState,
    KeyedBackend,
    ListState,
    MapState,
    ReducingState,
    ValueState,
)

ProcessFunction = Callable[[Any, Any], Iterable[Any] | None]


class FunctionContext:
    """What a user's function may use. Valid in `open` and `process`; state handles speak of the current key."""

    __slots__ = ("_backend", "_no_state_hint", "_operator", "_outputs", "_side_outputs", "parallelism", "subtask")

    def __init__(self, context: OperatorContext, backend: KeyedBackend | None, *, no_state_hint: str = "") -> None:
        self.subtask = context.subtask
        self.parallelism = context.parallelism
        self._operator = context.name
        self._backend = backend
        self._no_state_hint = no_state_hint or "key_by first: keyed state belongs to a key"
        self._outputs: list[Any] = []
        self._side_outputs: dict[str, list[Any]] = {}

    @property
    def current_key(self) -> Any:
        return self._keyed("the current key").current_key

    def value_state(self, name: str, default: Any = None) -> ValueState:
        return self._keyed(f'state "{name}"').value_state(name, default)

    def list_state(self, name: str) -> ListState:
        return self._keyed(f'state "{name}"').list_state(name)

    def map_state(self, name: str) -> MapState:
        return self._keyed(f'state "{name}"').map_state(name)

    def reducing_state(self, name: str, reduce: Callable[[Any, Any], Any]) -> ReducingState:
        return self._keyed(f'state "{name}"').reducing_state(name, reduce)

    def aggregating_state(self, name: str, aggregate: Aggregate) -> AggregatingState:
        return self._keyed(f'state "{name}"').aggregating_state(name, aggregate)

    def emit(self, value: Any) -> None:
        """Sends a value down the main output, as yielding it would."""
        self._outputs.append(value)

    def side_output(self, tag: str, value: Any) -> None:
        """Sends a value down the side output of this tag."""
        values = self._side_outputs.get(tag)
        if values is None:
            values = self._side_outputs[tag] = []
        values.append(value)

    def _keyed(self, wanted: str) -> KeyedBackend:
        if self._backend is None:
            raise UserError(
                f'operator "{self._operator}" asks for {wanted}, but has no key here', hint=self._no_state_hint
            )
        return self._backend

    def _take_outputs(self) -> tuple[list[Any], dict[str, list[Any]]]:
        taken = self._outputs, self._side_outputs
        self._outputs, self._side_outputs = [], {}
        return taken


class FunctionOperator(Operator):
    """Opens and closes a user's object, runs its methods over rows, and sends what they put out."""

    def __init__(self, function: Any) -> None:
        if isinstance(function, type):
            raise UserError(
                f'"{function.__name__}" is a class, not a function', hint=f"pass an object: {function.__name__}()"
            )
        self._function = function
        self._backend: KeyedBackend | None = None
        self._opened = False

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        if self._is_keyed():
            self._backend = context.keyed_backend()
        self._function_context = self._make_function_context(self._backend)
        self._opened = True  # before it is: a failure half-way must still be closed
        if hasattr(self._function, "open"):
            try:
                self._function.open(self._function_context)
            except Exception as error:
                self._fail(error, self._function.open, "when it was opened")
        if any(self._function_context._take_outputs()):
            raise UserError(
                f'function "{name_of(self._function)}" of operator "{context.name}" emitted a value in open',
                hint="emit in process: after a failure open runs again, and its output would come twice",
            )

    def freeze(self, checkpoint: CheckpointId) -> OperatorSnapshot:
        return OperatorSnapshot(keyed=None if self._backend is None else self._backend.freeze())

    def close(self) -> None:
        try:
            if self._opened and hasattr(self._function, "close"):
                self._function.close()
        except Exception as error:
            self._fail(error, self._function.close, "when it was closed")
        finally:
            self._opened = False
            if self._backend is not None:
                self._backend.close()

    def _is_keyed(self) -> bool:
        return False

    def _make_function_context(self, backend: KeyedBackend | None) -> FunctionContext:
        return FunctionContext(self.context, backend)

    def _run(
        self, process: ProcessFunction, batch: Batch, *, context: FunctionContext, key: KeySelector | None
    ) -> None:
        if key is None:
            self._run_rows(process, rows_of(batch), context)
        else:
            keys = keys_of(key, batch, operator=self.context.name)
            self._run_keyed_rows(process, rows_of(batch), keys, context)
        outputs, side_outputs = context._take_outputs()
        if outputs:
            self.context.emit(ObjectBatch(outputs))
        for tag, values in side_outputs.items():
            self.context.emit_side(tag, ObjectBatch(values))

    def _run_rows(self, process: ProcessFunction, rows: list[Any], context: FunctionContext) -> None:
        append = context._outputs.append
        record = None
        try:
            for record in rows:
                outputs = process(record, context)
                if outputs is not None:
                    # Not extend: a generator may call context.emit between two yields.
                    for output in outputs:
                        append(output)
        except Exception as error:
            raise_user_error(error, function=process, operator=self.context.name, record=record)

    def _run_keyed_rows(
        self, process: ProcessFunction, rows: list[Any], keys: list[Any], context: FunctionContext
    ) -> None:
        assert self._backend is not None, "a keyed function without a backend"
        set_current_key = self._backend.set_current_key
        append = context._outputs.append
        record = None
        try:
            for record, key in zip(rows, keys, strict=True):
                set_current_key(key)
                outputs = process(record, context)
                if outputs is not None:
                    for output in outputs:
                        append(output)
        except Exception as error:
            raise_user_error(error, function=process, operator=self.context.name, record=record)

    def _map(self, function: Callable[[Any], Any], batch: Batch, *, key: KeySelector | None) -> None:
        rows = rows_of(batch)
        if key is None:
            outputs = map_rows(function, rows, operator=self.context.name)
        else:
            outputs = self._map_keyed_rows(function, rows, keys_of(key, batch, operator=self.context.name))
        self.context.emit(ObjectBatch(outputs))

    def _map_keyed_rows(self, function: Callable[[Any], Any], rows: list[Any], keys: list[Any]) -> list[Any]:
        assert self._backend is not None, "a keyed function without a backend"
        set_current_key = self._backend.set_current_key
        outputs = []
        record = None
        try:
            for record, key in zip(rows, keys, strict=True):
                set_current_key(key)
                outputs.append(function(record))
        except Exception as error:
            raise_user_error(error, function=function, operator=self.context.name, record=record)
        return outputs

    def _fail(self, error: Exception, function: object, moment: str) -> NoReturn:
        raise_user_error(error, function=function, operator=self.context.name, moment=moment)


class ProcessOperator(FunctionOperator):
    """Runs the function on every record, without a key."""

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        self._process = process_method_of(function)

    def process(self, batch: Batch, port: int) -> None:
        self._run(self._process, batch, context=self._function_context, key=None)


class KeyedProcessOperator(FunctionOperator):
    """Runs the function on every record, with the state of the record's key."""

    def __init__(self, key: KeySelector, function: Any) -> None:
        super().__init__(function)
        self._key = key
        self._process = process_method_of(function)

    def process(self, batch: Batch, port: int) -> None:
        self._run(self._process, batch, context=self._function_context, key=self._key)

    def _is_keyed(self) -> bool:
        return True


def process_method_of(function: Any) -> ProcessFunction:
    """The object's `process`, or the callable itself."""
    process: ProcessFunction | None = getattr(function, "process", function if callable(function) else None)
    if process is None:
        raise UserError(
            f'an object of type "{type(function).__name__}" can\'t process records',
            hint="give it a method process(self, record, context), or pass a function of record and context",
        )
    return process

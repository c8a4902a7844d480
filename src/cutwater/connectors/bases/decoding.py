"""How do messages become records, and what happens to those that can't?

All of a batch at once. When that fails, those to blame are found: the first one is named in the error; or, where the
job tolerates it, all of them are handed on beside the batch of the others.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
import pyarrow as pa

from cutwater.batches import Batch, ObjectBatch
from cutwater.connectors.bases.json_rows import JsonRows, check_json_columns
from cutwater.connectors.bases.message_formats import MessageFormat
from cutwater.connectors.contract import Unreadable
from cutwater.connectors.failures import user_function_failed
from cutwater.errors import ConfigurationError, CutwaterError, InternalError, OperationsError, SchemaError

Value: TypeAlias = "str | Callable[[Any], Any] | MessageFormat"
"""A name of `FORMATS`, a function, or an object of `cw.formats`."""
Rows: TypeAlias = Callable[[Sequence[Any]], pa.RecordBatch]
Failures: TypeAlias = list[tuple[int, Exception]]
"""Which ones, and why."""

FORMATS: dict[str, Callable[[bytes], Any] | None] = {
    "bytes": None,
    "text": bytes.decode,
    "json": msgspec.json.Decoder().decode,
}
_NO_FAULT_OF_THE_MESSAGE: Final = (MemoryError, OperationsError, InternalError)


@dataclass(frozen=True, slots=True)
class Place:
    """Where messages come from."""

    #: For people: the message at this position, `message 17 of orders/0`.
    told: Callable[[object], str]
    #: Of the message with this index.
    position: Callable[[int], object]
    #: The message with this index as it came; None: what is decoded is all of it.
    raw: Callable[[int], Any] | None = None


class Decoded(NamedTuple):
    """`batch` None: nothing of it was readable."""

    batch: Batch | None
    unreadable: Sequence[Unreadable] = ()
    #: Which messages are in the batch; None: all.
    kept: Sequence[int] | None = None


class Decoder(ABC):
    """Makes batches of messages."""

    def __init__(self, *, tolerant: bool, function: object = None, expected: str = "") -> None:
        """`function`: the user's, if it is one that decodes. `expected`: for the error."""
        self._tolerant = tolerant
        self._function = function
        self._expected = expected

    def decode(self, messages: Sequence[Any], place: Place) -> Decoded:
        """The records, in order. A message that can't be decoded is named in the error, or handed on."""
        batch, failures = self._decode(messages)
        if not failures:
            return Decoded(batch)
        if not self._tolerant:
            raise self._failed(messages, place, *failures[0])
        unreadable = [
            Unreadable(_raw(messages, place, index), place.position(index), error, self._function)
            for index, error in failures
        ]
        bad = {index for index, _ in failures}
        return Decoded(batch, unreadable, [index for index in range(len(messages)) if index not in bad])

    @abstractmethod
    def _decode(self, messages: Sequence[Any]) -> tuple[Batch | None, Failures]:
        """What can be decoded, and what can't: if nothing is tolerated, nothing behind the first one counts."""

    def _failed(self, messages: Sequence[Any], place: Place, index: int, error: Exception) -> CutwaterError:
        where = place.told(place.position(index))
        shown = f"{_raw(messages, place, index)!r:.200}"
        if self._function is not None:
            failure: CutwaterError = user_function_failed("the function of value=", error, given=f"{where}: {shown}")
        else:
            detail = f"{type(error).__name__}: {error}; it is {shown}{self._expected}"
            failure = SchemaError(f"{where} can't be decoded", detail=detail)
        failure.hint = 'from_source(…, on_error="skip"), or "dead_letter", goes on without such records'
        failure.__cause__ = error
        return failure


class ValueDecoder(Decoder):
    """Python values, one by one. A message that is None stays None."""

    def __init__(self, one: Callable[[Any], Any] | None, *, tolerant: bool = False, function: object = None) -> None:
        """`one` None: messages are records as they are."""
        super().__init__(tolerant=tolerant, function=function)
        self._one = one

    def _decode(self, messages: Sequence[Any]) -> tuple[Batch | None, Failures]:
        one = self._one
        if one is None:
            return ObjectBatch(list(messages)), []
        values: list[Any] = []
        failures: Failures = []
        remaining = iter(messages)
        while True:
            try:
                # What came before the failure stays in the list.
                values.extend(None if message is None else one(message) for message in remaining)
                break
            except _NO_FAULT_OF_THE_MESSAGE:
                raise
            except Exception as error:
                failures.append((len(values) + len(failures), error))
                if not self._tolerant:
                    break
        return ObjectBatch(values) if values else None, failures


class RowDecoder(Decoder):
    """Typed rows, many at once. Where that fails, each half is tried: one bad message costs a few tries, not all."""

    def __init__(self, rows: Rows, columns: pa.Schema, *, tolerant: bool = False) -> None:
        """`rows` raises when it can't read one of them."""
        super().__init__(tolerant=tolerant, expected=f"; expected {columns_told(columns)}")
        self._rows = rows

    def _decode(self, messages: Sequence[Any]) -> tuple[Batch | None, Failures]:
        batches: list[pa.RecordBatch] = []
        failures: Failures = []
        self._halve(messages, 0, batches, failures)
        return _joined(batches), failures

    def _halve(self, messages: Sequence[Any], first: int, batches: list[pa.RecordBatch], failures: Failures) -> None:
        if failures and not self._tolerant:
            return
        try:
            batches.append(self._rows(messages))
        except _NO_FAULT_OF_THE_MESSAGE:
            raise
        except Exception as error:
            if len(messages) == 1:
                failures.append((first, error))
                return
            middle = len(messages) // 2
            self._halve(messages[:middle], first, batches, failures)
            self._halve(messages[middle:], first + middle, batches, failures)


def decoder_of(value: Value, schema: pa.Schema | None = None, *, tolerant: bool = False) -> Decoder:
    """What the user asked for, once checked. A schema makes typed rows: of JSON objects, or as the format does."""
    if isinstance(value, MessageFormat):
        if schema is None:
            return ValueDecoder(value.decode_one(), tolerant=tolerant)
        return RowDecoder(value.decode_rows(schema), schema, tolerant=tolerant)
    if schema is not None:
        return RowDecoder(JsonRows(schema), schema, tolerant=tolerant)
    if callable(value):
        return ValueDecoder(value, tolerant=tolerant, function=value)
    return ValueDecoder(FORMATS[value], tolerant=tolerant)


def settled(value: Value, schema: pa.Schema | None, *, topic: str | None) -> tuple[Value, pa.Schema | None]:
    """What to decode messages of this topic with, and the schema of typed rows. In the driver, on the user's line: what
    can't decode is refused. A format may ask for its schema, and block. `topic` None: there are several.
    """
    is_known = value in FORMATS if isinstance(value, str) else callable(value) or isinstance(value, MessageFormat)
    if not is_known:
        raise ConfigurationError(
            f"value {value!r} is unknown", hint="'bytes', 'text', 'json', a function, or one of cw.formats"
        )
    if schema is None:
        if not isinstance(value, MessageFormat):
            return value, None
        bound = value.of_topic(topic)
        return bound, bound.schema
    if not isinstance(schema, pa.Schema):
        raise ConfigurationError("schema must be a pyarrow.Schema", detail=f"it is {schema!r}")
    if value not in ("bytes", "json"):
        raise ConfigurationError(
            f"value={value!r} has no columns",
            detail="schema= makes typed rows of JSON objects",
            hint="leave value= out where schema= is given",
        )
    check_json_columns(schema)
    return value, schema


def columns_told(columns: pa.Schema) -> str:
    """Names and types, for messages."""
    return ", ".join(f"{field.name}: {field.type}" for field in columns)


def _raw(messages: Sequence[Any], place: Place, index: int) -> Any:
    return messages[index] if place.raw is None else place.raw(index)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch | None:
    if len(batches) <= 1:
        return batches[0] if batches else None
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]

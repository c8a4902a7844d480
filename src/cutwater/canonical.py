"""What does keyed state look like, whatever backend holds it?

As rows: a key group, a key, a namespace where a key has several entries (the key in a map, the window, the time of a
timer), a value. Every backend can give its state as such rows and take them back; savepoints are tables of them.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Literal

import cloudpickle
import msgspec
import numpy as np
import pyarrow as pa

from cutwater.errors import SerializationError
from cutwater.pickles import Loads, has_opaque

StateKind = Literal["value", "list", "map", "reducing", "aggregating", "timer", "columns"]

GROUP, KEY, NAMESPACE, VALUE = "key_group", "key", "namespace", "value"
#: Beside a column of pickles: what a person, or SQL, can read of them.
TEXT_SUFFIX = "_text"
_FORM = b"cutwater.form"
OPAQUE = "opaque"
_PLAIN: dict[type, pa.DataType] = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
    date: pa.date32(),
}
_TEXT_LENGTH_MAX = 4_000


@dataclass(frozen=True, slots=True)
class StateRows:
    """Some entries of one state, as lists of equal length."""

    name: str
    kind: StateKind
    groups: list[int]
    keys: list[Any]
    #: None: an entry is told apart by its key alone.
    namespaces: list[Any] | None
    values: list[Any]

    def __len__(self) -> int:
        return len(self.groups)


def to_batch(rows: StateRows) -> pa.RecordBatch:
    """A table of the rows: typed columns where all values are of one simple type, else pickles with a text beside.

    Of values that could not be read there is only the text.
    """
    columns: dict[str, pa.Array] = {}
    fields: list[pa.Field] = []

    def add(name: str, values: Sequence[Any]) -> None:
        array, form = _encoded(values)
        columns[name] = array
        fields.append(pa.field(name, array.type, metadata={_FORM: form.encode()}))
        if form == "pickle":
            columns[name + TEXT_SUFFIX] = pa.array([_text(value) for value in values], pa.string())
            fields.append(pa.field(name + TEXT_SUFFIX, pa.string()))

    columns[GROUP] = pa.array(rows.groups, pa.int32())
    fields.append(pa.field(GROUP, pa.int32()))
    add(KEY, rows.keys)
    if rows.namespaces is not None:
        add(NAMESPACE, rows.namespaces)
    add(VALUE, rows.values)
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=pa.schema(fields))


def from_batch(batch: pa.RecordBatch, name: str, kind: StateKind, *, loads: Loads = pickle.loads) -> StateRows:
    """The rows that `to_batch` was given. A table that someone else wrote needs only the plain columns.

    `loads` reads pickles: `pickle.loads`, or one for those of strangers (see `pickles`).
    """
    missing = {GROUP, KEY, VALUE} - set(batch.schema.names)
    if missing:
        raise SerializationError(
            f'the table of state "{name}" has no column {", ".join(sorted(missing))}',
            detail=f"its columns: {', '.join(batch.schema.names)}",
        )
    namespaces = _decoded(batch, NAMESPACE, loads) if NAMESPACE in batch.schema.names else None
    keys, values = _decoded(batch, KEY, loads), _decoded(batch, VALUE, loads)
    return StateRows(name, kind, batch.column(GROUP).to_pylist(), keys, namespaces, values)


def to_stream(batch: pa.RecordBatch) -> bytes:
    """A batch as an Arrow stream: what columnar state is in a checkpoint."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def with_group(batch: pa.RecordBatch, group: int) -> pa.RecordBatch:
    """The rows with their key group in front."""
    groups = pa.array(np.full(batch.num_rows, group, dtype=np.int32))
    schema = batch.schema.insert(0, pa.field(GROUP, pa.int32()))
    return pa.RecordBatch.from_arrays([groups, *batch.columns], schema=schema)


def _encoded(values: Sequence[Any]) -> tuple[pa.Array, str]:
    """A column, and in which form the values are in it."""
    kinds = {type(value) for value in values} - {type(None)}
    if not kinds:
        return pa.nulls(len(values)), "plain"
    if len(kinds) == 1:
        (kind,) = kinds
        made = _encoded_alike(kind, values)
        if made is not None:
            return made
    if any(map(has_opaque, values)):
        return pa.array([_text(value) for value in values], pa.string()), OPAQUE
    return pa.array([_pickled(value) for value in values], pa.binary()), "pickle"


def _encoded_alike(kind: type, values: Sequence[Any]) -> tuple[pa.Array, str] | None:
    try:
        if kind in _PLAIN:
            return pa.array(values, _PLAIN[kind]), "plain"
        if kind is datetime and all(value is None or value.tzinfo is None for value in values):
            return pa.array(values, pa.timestamp("us")), "plain"
        if kind is tuple:
            return _encoded_tuples(values)
        if kind is list:
            return _encoded_lists(values)
        if kind is dict:
            return _encoded_records(values)
    except (pa.ArrowException, OverflowError, UnicodeEncodeError):
        pass  # a number of more than 64 bits, half of a surrogate pair
    return None


def _encoded_tuples(values: Sequence[Any]) -> tuple[pa.Array, str] | None:
    """Of one length, with simple parts: a struct of _1, _2, …"""
    lengths = {len(value) if value is not None else -1 for value in values}
    if len(lengths) != 1 or lengths <= {0, -1}:
        return None
    parts = [_encoded(part) for part in zip(*values, strict=True)]
    if any(form != "plain" or pa.types.is_null(array.type) for array, form in parts):
        return None
    arrays = [array for array, _ in parts]
    return pa.StructArray.from_arrays(arrays, [f"_{number}" for number in range(1, len(arrays) + 1)]), "tuple"


def _encoded_records(values: Sequence[Any]) -> tuple[pa.Array, str] | None:
    """With the same few names in each, and simple values: a struct."""
    names = list(values[0]) if values[0] is not None else []
    if not names or not all(type(name) is str for name in names):
        return None
    if any(value is None or list(value) != names for value in values):
        return None
    parts = [_encoded([value[name] for value in values]) for name in names]
    if any(form not in ("plain", "list") or pa.types.is_null(array.type) for array, form in parts):
        return None
    return pa.StructArray.from_arrays([array for array, _ in parts], names), "record"


def _encoded_lists(values: Sequence[Any]) -> tuple[pa.Array, str] | None:
    """With simple items of one type."""
    items, form = _encoded([item for value in values if value is not None for item in value])
    if form != "plain" or pa.types.is_null(items.type):
        return None
    return pa.array(values, pa.list_(items.type)), "list"


def opaque_columns(batch: pa.RecordBatch) -> list[str]:
    """The columns of which there are only texts."""
    return [field.name for field in batch.schema if (field.metadata or {}).get(_FORM) == OPAQUE.encode()]


def _decoded(batch: pa.RecordBatch, name: str, loads: Loads) -> list[Any]:
    field = batch.schema.field(name)
    form = ((field.metadata or {}).get(_FORM) or _guessed_form(batch, name)).decode("utf-8", "replace")
    values: list[Any] = batch.column(name).to_pylist()
    match form:
        case "plain" | "list" | "record":
            return values
        case "tuple":
            return [tuple(value.values()) if isinstance(value, dict) else value for value in values]
        case "pickle":
            return [_unpickled(value, loads) for value in values]
        case _:
            raise SerializationError(
                f'the column "{name}" of the savepoint can\'t be read', detail=f"its values are of the form {form!r}"
            )


def _guessed_form(batch: pa.RecordBatch, name: str) -> bytes:
    """Of a table that has been through other hands, which know nothing of our metadata."""
    kind = batch.schema.field(name).type
    if name + TEXT_SUFFIX in batch.schema.names:
        return b"pickle"
    if pa.types.is_struct(kind) and all(kind.field(index).name == f"_{index + 1}" for index in range(kind.num_fields)):
        return b"tuple"
    return b"plain"


def _pickled(value: Any) -> bytes:
    try:
        return pickle.dumps(value, 5)
    except Exception:  # a class of a script or notebook, which has no name here: it goes by value
        return bytes(cloudpickle.dumps(value, 5))


def _unpickled(data: bytes, loads: Loads) -> Any:
    try:
        return loads(data)
    except Exception as error:
        raise SerializationError(
            "a value of the savepoint can't be read back",
            detail=f"{type(error).__name__}: {error}",
            hint="are the classes of the stored values still importable under their old names?",
        ) from error


def _text(value: Any) -> str:
    """JSON, if it can be said in JSON."""
    try:
        text = msgspec.json.encode(value).decode()
    except (TypeError, ValueError, msgspec.MsgspecError):
        text = repr(value)
    return text if len(text) <= _TEXT_LENGTH_MAX else text[:_TEXT_LENGTH_MAX] + "…"

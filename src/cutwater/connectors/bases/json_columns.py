"""How do typed columns become JSON objects, without a Python object for each value?"""

from __future__ import annotations

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_QUOTE, _BACKSLASH, _SPACE = ord('"'), ord("\\"), ord(" ")


def json_objects(batch: pa.RecordBatch) -> pa.Array | None:
    """An object for each row, as a column of text. None: not for these columns, or these values.

    Text, whole numbers and booleans are in JSON what they are; floats aren't, as there may be NaN.
    """
    if not batch.num_columns:
        return None
    pieces: list[pa.Array | pa.Scalar] = []
    between = "{"
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        value = _as_json(column)
        if value is None:
            return None
        # Quotes belong to what stands between the values; only where some are null, to the values.
        quote = '"' if _is_text(column.type) and not column.null_count else ""
        pieces += [_constant(f"{between}{msgspec.json.encode(name).decode()}:{quote}"), value]
        between = f"{quote},"
    return pc.binary_join_element_wise(*pieces, _constant(f"{quote}}}"), _constant(""))


def _as_json(column: pa.Array) -> pa.Array | None:
    kind = column.type
    if _is_text(kind):
        text = column.cast(pa.large_string())
        if _needs_escapes(text):
            return None
        if column.null_count:
            text = pc.binary_join_element_wise(_constant('"'), text, _constant('"'), _constant(""))
    elif pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        text = column.cast(pa.large_string())
    else:
        return None
    return text.fill_null("null") if column.null_count else text


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _needs_escapes(text: pa.Array) -> bool:
    """Looks at the bytes of these values only: the column may be a small part of a large one."""
    _, offsets, data = text.buffers()
    if data is None or not len(text):
        return False
    ends = np.frombuffer(offsets, dtype=np.int64)
    found = np.frombuffer(data, dtype=np.uint8)[ends[text.offset] : ends[text.offset + len(text)]]
    return bool(((found < _SPACE) | (found == _QUOTE) | (found == _BACKSLASH)).any())


def _constant(text: str) -> pa.Scalar:
    return pa.scalar(text, pa.large_string())

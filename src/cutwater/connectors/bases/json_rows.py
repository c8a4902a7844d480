"""How do many JSON objects become the rows of a typed batch, quickly?

Columns of text, numbers and booleans come through structs that have only these fields: the rest of an object is passed
over, which is faster than all that follows. Other types are parsed by Arrow, as lines of one text. Arrow says less than
it takes: it doesn't look whether strings are UTF-8, and an object may reach from one line into the next. That is seen
to first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from operator import attrgetter
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.json as pj

from cutwater.errors import ConfigurationError

_decode = msgspec.json.Decoder(dict).decode


class JsonRows:
    """Makes a batch of JSON objects; raises when one of them is none, or doesn't fit. None is a row of nulls."""

    def __init__(self, columns: pa.Schema) -> None:
        self._columns = columns
        self._options = pj.ParseOptions(explicit_schema=columns, unexpected_field_behavior="ignore")
        self._structs = _struct_decoder(columns)

    def __call__(self, payloads: Sequence[bytes | None]) -> pa.RecordBatch:
        if self._structs is not None:
            # What doesn't fit may fit Arrow, and if it doesn't, Arrow says so.
            with suppress(msgspec.DecodeError, pa.ArrowException, OverflowError, ValueError):
                return self._through_structs(self._structs, payloads)
        objects = [b"{}" if payload is None else payload.strip() for payload in payloads]
        try:
            return self._parsed(objects)
        except (pa.ArrowException, ValueError):
            # Arrow's parser knows fewer types, and e.g. no numbers as timestamps.
            return pa.RecordBatch.from_pylist([*map(_decode, objects)], schema=self._columns)

    def _through_structs(self, decode: Callable[[bytes], Any], payloads: Sequence[bytes | None]) -> pa.RecordBatch:
        rows = [decode(b"{}" if payload is None else payload) for payload in payloads]
        columns = [
            pa.array([*map(attrgetter(f"column{number}"), rows)], field.type)
            for number, field in enumerate(self._columns)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._columns)

    def _parsed(self, objects: list[bytes]) -> pa.RecordBatch:
        # With a brace at both ends, none can reach into the next.
        if not all(each[:1] == b"{" and each[-1:] == b"}" for each in objects):
            raise ValueError("not a JSON object")
        text = b"\n".join(objects)
        text.decode()
        table = pj.read_json(
            pa.BufferReader(text),
            read_options=pj.ReadOptions(use_threads=False, block_size=len(text) + 1),
            parse_options=self._options,
        )
        if table.num_rows != len(objects):
            raise ValueError("not one JSON object")
        (batch,) = table.combine_chunks().to_batches()
        return pa.RecordBatch.from_arrays([batch[name] for name in self._columns.names], schema=self._columns)


def _struct_decoder(columns: pa.Schema) -> Callable[[bytes], Any] | None:
    """None: not for these types."""
    kinds = [_kind_of(field.type) for field in columns]
    if None in kinds or len(set(columns.names)) < len(columns.names):
        return None
    fields = [(f"column{number}", kind | None, None) for number, kind in enumerate(kinds)]
    names = {f"column{number}": name for number, name in enumerate(columns.names)}
    return msgspec.json.Decoder(msgspec.defstruct("Row", fields, rename=names, gc=False)).decode


def _kind_of(column: pa.DataType) -> Any:
    if pa.types.is_string(column) or pa.types.is_large_string(column):
        return str
    if pa.types.is_integer(column):
        return int
    if pa.types.is_float32(column) or pa.types.is_float64(column):
        return float
    return bool if pa.types.is_boolean(column) else None


def check_json_columns(columns: pa.Schema) -> None:
    """Refuses columns that no JSON can fill. In the driver, on the user's line."""
    try:
        JsonRows(columns)([None])
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise ConfigurationError("JSON can't be read into this schema", detail=str(error)) from None

"""How does a record become the bytes of a message?"""

from __future__ import annotations

from typing import Any

import msgspec

from cutwater.batches import Batch, ObjectBatch, rows_of, without_time_column
from cutwater.connectors.bases.json_values import json_value
from cutwater.errors import SchemaError

_encode_json = msgspec.json.Encoder().encode


def encoded(batch: Batch) -> list[bytes]:
    """Bytes as they are, text as UTF-8, everything else as JSON; the rows of a typed batch as JSON objects."""
    if not isinstance(batch, ObjectBatch):
        return [_encode_json(row) for row in without_time_column(batch).to_pylist()]
    return list(map(_encoded_value, rows_of(batch)))


def _encoded_value(value: Any) -> bytes:
    match value:
        case bytes():
            return value
        case str():
            return value.encode(errors="surrogatepass")
    try:
        return _encode_json(json_value(value))
    except (TypeError, ValueError) as error:
        raise SchemaError(
            "a record can't be sent as JSON",
            detail=f"{error}: {value!r:.200}",
            hint="map it to bytes, a string, or plain lists and dicts",
        ) from error

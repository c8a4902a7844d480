"""How does a message become a record, and a record a message?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa

from cutwater.connectors.bases.decoding import Decoded, Place, Value, decoder_of
from cutwater.connectors.bases.json_values import json_value
from cutwater.connectors.bases.message_formats import MessageFormat
from cutwater.errors import SerializationError


class MessageDecoder:
    """Makes records of the messages of one stream. A function is given the message, with subject and headers."""

    def __init__(self, stream: str, value: Value, schema: pa.Schema | None, *, tolerant: bool = False) -> None:
        self._stream = stream
        self._takes_message = callable(value) and not isinstance(value, MessageFormat)
        self._decoder = decoder_of(value, schema, tolerant=tolerant)

    def decode(self, messages: Sequence[Any]) -> Decoded:
        """In order."""
        place = Place(
            lambda sequence: f'message {sequence} of stream "{self._stream}"',
            lambda index: messages[index].metadata.sequence.stream,
            lambda index: messages[index].data,
        )
        return self._decoder.decode(messages if self._takes_message else [each.data for each in messages], place)


def payload_of(record: Any) -> bytes:
    """Bytes as they are, text as UTF-8, everything else as JSON."""
    if isinstance(record, bytes):
        return record
    if isinstance(record, str):
        return record.encode()
    try:
        return msgspec.json.encode(json_value(record))
    except (TypeError, ValueError) as error:
        raise SerializationError(
            "a record can't become a message", detail=f"{error}; it is {record!r}", hint="map it to bytes before"
        ) from error

"""Formats of messages: `cw.formats.…`, for `value=` of sources and sinks."""

from cutwater.connectors.formats.avro_messages import avro
from cutwater.connectors.formats.protobuf_messages import protobuf
from cutwater.connectors.formats.registry import registry

__all__ = ["avro", "protobuf", "registry"]

"""Which Arrow columns does an Avro record have?"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from cutwater.errors import ConfigurationError

_SIMPLE: dict[str, pa.DataType] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
}
_LOGICAL: dict[str, pa.DataType] = {
    "date": pa.date32(),
    "time-millis": pa.time32("ms"),
    "time-micros": pa.time64("us"),
    "timestamp-millis": pa.timestamp("ms", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "local-timestamp-millis": pa.timestamp("ms"),
    "local-timestamp-micros": pa.timestamp("us"),
    "uuid": pa.string(),
}
_DECIMAL128_DIGITS = 38


def arrow_schema(schema: Any) -> pa.Schema:
    """Of a schema that fastavro has parsed."""
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise ConfigurationError(
            "only an Avro record has columns",
            detail=f"the schema is {schema!r:.200}",
            hint="leave out typed=True",
        )
    return pa.schema(_Columns(schema.get("__named_schemas", {})).of_record(schema))


class _Columns:
    """Remembers types by name: a schema defines each once, and then names it."""

    def __init__(self, elsewhere: dict[str, Any]) -> None:
        """`elsewhere`: definitions by name, also of schemas that this one refers to."""
        self._elsewhere = elsewhere
        self._named: dict[str, pa.DataType] = {}
        self._open: list[str] = []

    def of_record(self, record: dict[str, Any]) -> list[pa.Field]:
        self._open.append(record["name"])
        fields = [self._field(each["name"], each["type"]) for each in record["fields"]]
        self._open.pop()
        return fields

    def _field(self, name: str, kind: Any) -> pa.Field:
        nullable = "null" in kind if isinstance(kind, list) else kind == "null"
        return pa.field(name, self._type(kind, name), nullable=nullable)

    def _type(self, kind: Any, where: str) -> pa.DataType:
        if isinstance(kind, list):
            return self._union(kind, where)
        if isinstance(kind, str):
            return self._by_name(kind, where)
        logical = kind.get("logicalType")
        if logical == "decimal":
            return _decimal(kind)
        if logical in _LOGICAL:
            return _LOGICAL[logical]
        return self._complex(kind, where)

    def _complex(self, kind: dict[str, Any], where: str) -> pa.DataType:
        match kind["type"]:
            case "array":
                return pa.list_(self._field("item", kind["items"]))
            case "map":
                return pa.map_(pa.string(), self._field("value", kind["values"]))
            case "fixed":
                return self._remember(kind["name"], pa.binary(kind["size"]))
            case "enum":
                return self._remember(kind["name"], pa.string())
            case "record":
                return self._remember(kind["name"], pa.struct(self.of_record(kind)))
            case other:
                return self._type(other, where)

    def _union(self, kinds: list[Any], where: str) -> pa.DataType:
        others = [kind for kind in kinds if kind != "null"]
        if len(others) > 1:
            raise ConfigurationError(
                f"field {where!r} of the Avro schema has no column type",
                detail="it is a union of several types",
                hint="leave out typed=True, or read it with a schema in which it has one type",
            )
        return self._type(others[0], where) if others else pa.null()

    def _by_name(self, name: str, where: str) -> pa.DataType:
        if name in _SIMPLE:
            return _SIMPLE[name]
        if name in self._open:
            raise ConfigurationError(
                f"field {where!r} of the Avro schema has no column type",
                detail=f"{name} holds itself",
                hint="leave out typed=True",
            )
        return self._named[name] if name in self._named else self._type(self._elsewhere[name], where)

    def _remember(self, name: str, made: pa.DataType) -> pa.DataType:
        self._named[name] = made
        return made


def _decimal(kind: dict[str, Any]) -> pa.DataType:
    precision, scale = kind["precision"], kind.get("scale", 0)
    return pa.decimal128(precision, scale) if precision <= _DECIMAL128_DIGITS else pa.decimal256(precision, scale)

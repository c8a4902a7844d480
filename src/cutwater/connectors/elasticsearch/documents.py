"""Which document of which index does a record become?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import msgspec

from cutwater.batches import Batch, rows_of
from cutwater.connectors.bases.json_values import json_value
from cutwater.connectors.failures import user_function_failed
from cutwater.errors import SchemaError

_encode_json = msgspec.json.Encoder().encode


class Operation(msgspec.Struct, frozen=True, gc=False):
    """What is to be done with one document."""

    index: str
    id: str
    #: JSON; None: the document is deleted.
    source: bytes | None
    version: int | None = None
    #: True: a document that is there already is left alone.
    creates: bool = False

    def lines(self) -> bytes:
        """As the bulk API wants it."""
        target: dict[str, Any] = {"_index": self.index, "_id": self.id}
        if self.version is not None:
            target |= {"version": self.version, "version_type": "external_gte"}
        if self.source is None:
            return _encode_json({"delete": target}) + b"\n"
        return b"%s\n%s\n" % (_encode_json({"create" if self.creates else "index": target}), self.source)


@dataclass(frozen=True, slots=True)
class Mapper:
    """What the user says of records: a name stands for all records, or for a column."""

    index: str | Callable[[Any], str]
    id: str | Callable[[Any], Any] | None = None
    version: str | Callable[[Any], Any] | None = None
    document: Callable[[Any], Any] | None = None

    def operations(self, batch: Batch) -> list[Operation]:
        """By id, the last record of each: what is replaced in the same breath need not be sent."""
        last: dict[tuple[str, str], Operation] = {}
        for record in rows_of(batch):
            operation = Operation(self._index(record), self._id(record), self._source(record), self._version(record))
            key = (operation.index, operation.id)
            # Of two with versions, the server would keep the higher one.
            before = last.get(key)
            if before is None or (before.version or 0) <= (operation.version or 0):
                last[key] = operation
        return list(last.values())

    def sources(self, batch: Batch) -> list[tuple[str, bytes]]:
        """For records without an id: index and document."""
        return [(self._index(record), self._document(record, record)) for record in rows_of(batch)]

    def _index(self, record: Any) -> str:
        if isinstance(self.index, str):
            return self.index
        index = _called("index=", self.index, record)
        if not isinstance(index, str) or not index:
            raise SchemaError("index= must give the name of an index", detail=f"{index!r} for {_shown(record)}")
        return index

    def _id(self, record: Any) -> str:
        assert self.id is not None, "records without ids are documents only"
        found = _value("id", self.id, record)
        if isinstance(found, bool) or not isinstance(found, str | int | UUID) or found == "":
            raise SchemaError(
                "a record has no id", detail=f"{found!r} of {_shown(record)}", hint="id= gives text or whole numbers"
            )
        return str(found)

    def _version(self, record: Any) -> int | None:
        if self.version is None:
            return None
        found = _value("version", self.version, record)
        if isinstance(found, bool) or not isinstance(found, int) or found < 0:
            raise SchemaError("a version must be a whole number", detail=f"{found!r} of {_shown(record)}")
        return found

    def _source(self, record: Any) -> bytes | None:
        content = record if self.document is None else _called("document=", self.document, record)
        return None if content is None else self._document(content, record)

    def _document(self, content: Any, record: Any) -> bytes:
        try:
            source = _encode_json(json_value(content))
        except (TypeError, ValueError) as error:
            raise SchemaError(f"a record can't be written as JSON: {error}", detail=_shown(record)) from error
        if not source.startswith(b"{"):
            raise SchemaError(
                "a document must have fields",
                detail=_shown(record),
                hint="map() records to dicts, named tuples or dataclasses first",
            )
        return source


def _value(option: str, of: str | Callable[[Any], Any], record: Any) -> Any:
    if callable(of):
        return _called(f"{option}=", of, record)
    try:
        return record[of] if isinstance(record, dict) else getattr(record, of)
    except (KeyError, AttributeError):
        raise SchemaError(f'a record has no "{of}", which is its {option}', detail=_shown(record)) from None


def _called(option: str, function: Callable[[Any], Any], record: Any) -> Any:
    try:
        return function(record)
    except Exception as error:
        raise user_function_failed(option, error, given=_shown(record)) from error


def _shown(record: Any) -> str:
    return f"{record!r:.200}"

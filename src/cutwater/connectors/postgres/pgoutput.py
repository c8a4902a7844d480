"""What do the bytes of PostgreSQL's output plugin `pgoutput` say?

Version 1 of its protocol: transactions come whole and in the order of their commits. A relation is described before its
first change, and again when it has changed.
https://www.postgresql.org/docs/current/protocol-logicalrep-message-formats.html
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_U16, _U32, _U64 = struct.Struct(">H"), struct.Struct(">I"), struct.Struct(">Q")
_BEGIN = struct.Struct(">QqI")
_COMMIT = struct.Struct(">BQQq")

Load = Callable[[bytes], Any]


@dataclass(frozen=True, slots=True)
class Began:
    #: Of the commit.
    lsn: int
    commit_time: datetime
    #: The lower 32 bits of its number.
    transaction: int


@dataclass(frozen=True, slots=True)
class Committed:
    #: Right behind the commit: transactions from here on are later.
    end_lsn: int


@dataclass(frozen=True, slots=True)
class Changed:
    """`before`: what the table's replica identity keeps, if the key changed or it is FULL."""

    op: str
    table: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    #: For tables whose keys are asked for: the values as texts.
    old_key: tuple[str, ...] | None = None
    new_key: tuple[str, ...] | None = None


Message = Began | Committed | Changed


@dataclass(frozen=True, slots=True)
class _Relation:
    table: str
    names: tuple[str, ...]
    loads: tuple[Load, ...]
    #: Columns of the key; empty: nobody asks for it.
    key: tuple[str, ...]


class Decoder:
    """Knows the relations that were described. `loader_of` gives what turns a column's text into a value, by type."""

    def __init__(self, loader_of: Callable[[int], Load], keys: Mapping[str, tuple[str, ...]] | None = None) -> None:
        """`keys`: by table, the columns whose texts are asked for."""
        self._loader_of = loader_of
        self._keys = keys or {}
        self._relations: dict[int, _Relation] = {}

    def decode(self, data: memoryview) -> list[Message]:
        """What the message says; nothing, if it only describes."""
        match bytes(data[:1]):
            case b"B":
                lsn, microseconds, transaction = _BEGIN.unpack_from(data, 1)
                return [Began(lsn, _EPOCH + timedelta(microseconds=microseconds), transaction)]
            case b"C":
                return [Committed(_COMMIT.unpack_from(data, 1)[2])]
            case b"I":
                relation = self._relations[_U32.unpack_from(data, 1)[0]]
                cursor = _Cursor(data, 6)
                return [Changed("insert", relation.table, None, cursor.row(relation), new_key=cursor.key)]
            case b"U":
                return [self._update(data)]
            case b"D":
                relation = self._relations[_U32.unpack_from(data, 1)[0]]
                cursor = _Cursor(data, 6)
                before = cursor.row(relation, key_only=data[5] == 75)
                return [Changed("delete", relation.table, before, None, old_key=cursor.key)]
            case b"T":
                count = _U32.unpack_from(data, 1)[0]
                ids = [_U32.unpack_from(data, 6 + 4 * index)[0] for index in range(count)]
                return [Changed("truncate", self._relations[each].table, None, None) for each in ids]
            case b"R":
                self._describe(data)
        return []

    def _update(self, data: memoryview) -> Changed:
        relation = self._relations[_U32.unpack_from(data, 1)[0]]
        cursor = _Cursor(data, 5)
        before = old_key = None
        kind = cursor.byte()
        if kind in b"KO":
            before = cursor.row(relation, key_only=kind == b"K")
            old_key = cursor.key
            cursor.byte()
        after = cursor.row(relation, unchanged=before)
        return Changed("update", relation.table, before, after, old_key, cursor.key or old_key)

    def _describe(self, data: memoryview) -> None:
        cursor = _Cursor(data, 5)
        schema, table = cursor.text(), cursor.text()
        cursor.byte()  # the replica identity
        names, loads = [], []
        for _ in range(cursor.number(_U16)):
            cursor.byte()  # whether it is part of the key
            names.append(cursor.text())
            loads.append(self._loader_of(cursor.number(_U32)))
            cursor.number(_U32)  # the type's modifier
        name = table if schema == "public" else f"{schema}.{table}"
        self._relations[_U32.unpack_from(data, 1)[0]] = _Relation(
            name, tuple(names), tuple(loads), self._keys.get(name, ())
        )


class _Cursor:
    """Takes one thing after another from a message."""

    def __init__(self, data: memoryview, at: int) -> None:
        self._data = data
        self._at = at
        #: Of the row that was read last; None: it isn't asked for, or wasn't sent.
        self.key: tuple[str, ...] | None = None

    def byte(self) -> bytes:
        self._at += 1
        return bytes(self._data[self._at - 1 : self._at])

    def number(self, form: struct.Struct) -> int:
        (number,) = form.unpack_from(self._data, self._at)
        self._at += form.size
        return int(number)

    def text(self) -> str:
        end = self._at
        while self._data[end]:
            end += 1
        text = bytes(self._data[self._at : end]).decode()
        self._at = end + 1
        return text

    def row(
        self, relation: _Relation, *, key_only: bool = False, unchanged: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Large values that an update left alone aren't sent: they are taken from before, or left out."""
        row: dict[str, Any] = {}
        key: dict[str, str] = {}
        data, at = self._data, self._at + 2
        for name, load in zip(relation.names, relation.loads, strict=True):
            kind = data[at]
            at += 1
            if kind == 116:  # t: text
                (length,) = _U32.unpack_from(data, at)
                at += 4
                value = bytes(data[at : at + length])
                row[name] = load(value)
                if name in relation.key:
                    key[name] = value.decode()
                at += length
            elif kind == 110:  # n: null, also for what is no part of the key
                if not key_only:
                    row[name] = None
            elif unchanged is not None and name in unchanged:
                row[name] = unchanged[name]
        self._at = at
        self.key = tuple(key[name] for name in relation.key) if key and len(key) == len(relation.key) else None
        return row

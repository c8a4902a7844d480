"""How do records become the lines of a text or JSON file?"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import Any, Literal

import msgspec

from cutwater.batches import Batch, ObjectBatch, rows_of
from cutwater.connectors.bases.json_values import json_values
from cutwater.connectors.file_compression import Compression, Frame, OutputFile
from cutwater.errors import SerializationError

NonFinite = Literal["refuse", "null", "string"]
"""What becomes of NaN and infinity, which JSON can't say."""


class Encoder(ABC):
    """Writes batches into one open file at a time. Used by one thread."""

    #: So many bytes at the start of each file are the same in all files that follow each other: a header.
    header_bytes: int = 0

    @abstractmethod
    def start(self, file: OutputFile) -> None:
        """A new, empty file."""

    @abstractmethod
    def write(self, batch: Batch) -> int:
        """Adds the records. About how large the file is now, in bytes."""

    def finish(self) -> None:
        """Writes what is left; the caller closes the file."""

    def abandon(self) -> None:
        """The file won't be used: lets go of it. The caller closes it."""


class LineEncoder(Encoder):
    """One line after the other, compressed or not."""

    def __init__(self, compression: Compression = "none") -> None:
        self._compression = compression

    def start(self, file: OutputFile) -> None:
        self._file = file
        self._frame = Frame(file, self._compression)

    def write(self, batch: Batch) -> int:
        self._frame.write(self.encode(batch))
        return self._file.tell()

    def finish(self) -> None:
        self._frame.end()

    def abandon(self) -> None:
        with suppress(OSError):
            self._frame.end()

    @abstractmethod
    def encode(self, batch: Batch) -> bytes: ...


class TextEncoder(LineEncoder):
    """str(value) a line, in UTF-8."""

    def encode(self, batch: Batch) -> bytes:
        lines = [str(value) for value in rows_of(batch)]
        lines.append("")
        return "\n".join(lines).encode(errors="backslashreplace")


class JsonLinesEncoder(LineEncoder):
    """A JSON value a line: rows, dicts, dataclasses and named tuples become objects."""

    def __init__(self, non_finite: NonFinite = "refuse", compression: Compression = "none") -> None:
        super().__init__(compression)
        self._non_finite = non_finite

    def encode(self, batch: Batch) -> bytes:
        try:
            values = json_values(batch.values) if isinstance(batch, ObjectBatch) else batch.to_pylist()
            lines = _JSON.encode_lines(values)
            # The encoder writes NaN and infinity as null: only where one stands, they may be.
            if self._non_finite == "null" or b"null" not in lines or not _may_be_non_finite(values):
                return lines
            return self._without_non_finite(values, lines)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise SerializationError(
                "a record can't be written as JSON",
                detail=str(error),
                hint="map() it to dicts, lists, strings and numbers first",
            ) from error

    def _without_non_finite(self, values: list[Any], lines: bytes) -> bytes:
        checked = lines.splitlines(keepends=True)
        for number, line in enumerate(checked):
            if b"null" not in line:
                continue
            plain = msgspec.to_builtins(values[number], enc_hook=_json_hook, str_keys=True)
            found = _non_finite_in(plain)
            if found is None:
                continue
            if self._non_finite == "refuse":
                raise SerializationError(
                    f"JSON has no {found}",
                    detail=f"in record {str(values[number])[:200]}",
                    hint='map() it to a number or None first, or choose: json_lines(…, non_finite="null" or "string")',
                )
            checked[number] = _JSON.encode(_spelled_out(plain)) + b"\n"
        return b"".join(checked)


def _may_be_non_finite(values: list[Any]) -> bool:
    """False: there is none for sure. In MessagePack such numbers have a form of their own, and it is quick to write."""
    try:
        return _NON_FINITE.search(_PACKED.encode(values)) is not None
    except OverflowError:  # JSON knows larger integers
        return True


def _non_finite_in(value: Any) -> str | None:
    """NaN or infinity anywhere in builtins, as JavaScript calls it."""
    if isinstance(value, float):
        return None if math.isfinite(value) else _name_of(value)
    if isinstance(value, dict):
        return next((found for item in value.values() if (found := _non_finite_in(item))), None)
    if isinstance(value, list | tuple | set | frozenset):
        return next((found for item in value if (found := _non_finite_in(item))), None)
    return None


def _spelled_out(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return _name_of(value)
    if isinstance(value, dict):
        return {key: _spelled_out(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_spelled_out(item) for item in value]
    return value


def _name_of(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def _json_hook(value: Any) -> Any:
    if hasattr(value, "item"):  # a NumPy or Arrow scalar
        return value.item()
    if hasattr(value, "as_py"):
        return value.as_py()
    raise TypeError(f"objects of type {type(value).__name__} are not supported")


_JSON = msgspec.json.Encoder(enc_hook=_json_hook)
_PACKED = msgspec.msgpack.Encoder(enc_hook=_json_hook)
#: A float64 whose exponent has all bits set.
_NON_FINITE = re.compile(rb"\xcb[\x7f\xff][\xf0-\xff]")

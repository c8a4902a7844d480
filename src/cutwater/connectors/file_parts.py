"""Which part of which file is a split?"""

from __future__ import annotations

import msgspec

from cutwater.connectors.file_system import file_system_of
from cutwater.errors import StorageError
from cutwater.protocol.splits import Split


class FilePart(msgspec.Struct, frozen=True):
    """A file from `start` to before `end`: bytes (text, JSON, Avro), row groups (Parquet) or all of it (CSV)."""

    path: str
    #: The file's size when it was discovered.
    size_bytes: int
    start: int
    end: int


def as_split(part: FilePart, *, modified_ns: int | None = None) -> Split:
    """The id is injective: what follows the last # is the start, and when the file was modified, if that matters.

    It does where a file may come again under the name of an earlier one, which may still be read.
    """
    version = "" if modified_ns is None else f"@{modified_ns:x}"
    return Split(f"{part.path}#{part.start}{version}", msgspec.msgpack.encode(part), origin=part.path)


def part_of(split: Split) -> FilePart:
    return msgspec.msgpack.decode(split.payload, type=FilePart)


def check_size(part: FilePart, *, may_grow: bool) -> None:
    """Raises when the file is gone, or is no longer the one that was discovered."""
    try:
        facts = file_system_of(part.path).facts(part.path)
    except OSError as error:
        raise StorageError(f"file {part.path!r} can't be read", detail=str(error)) from error
    if facts is None:
        raise StorageError(
            f"file {part.path!r} has vanished",
            detail=f"it had {part.size_bytes} bytes when it was discovered",
            hint="keep input files until the job is done with them; a restored job may read them again",
        )
    size_bytes = facts.size_bytes
    if size_bytes < part.size_bytes:
        raise file_shrank(part, size_bytes)
    if size_bytes > part.size_bytes and not may_grow:
        raise StorageError(
            f"file {part.path!r} has changed",
            detail=f"it had {part.size_bytes} bytes when it was discovered, now {size_bytes}",
            hint="write new files instead of changing old ones",
        )


def file_shrank(part: FilePart, size_bytes: int) -> StorageError:
    return StorageError(
        f"file {part.path!r} has shrunk",
        detail=f"it had {part.size_bytes} bytes when it was discovered, now {size_bytes}",
        hint="write new files instead of changing old ones",
    )

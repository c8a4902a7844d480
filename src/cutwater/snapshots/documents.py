"""How does a small JSON document prove that it is whole, and of a version that we can read?

    {"version": 1, "checksum": "<xxh3_128 of the body's bytes>", "body": {…}}

Manifests carry state inline, and one flipped character of it would still be JSON; hence the checksum.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from cutwater.errors import ConfigurationError, SnapshotDamagedError
from cutwater.snapshots.checksums import checksum_of
from cutwater.snapshots.format import FORMAT_VERSION

Body = TypeVar("Body")


class _Versioned(msgspec.Struct, frozen=True):
    version: int


class _Sealed(msgspec.Struct, frozen=True):
    version: int
    checksum: str
    body: msgspec.Raw


def seal(body: msgspec.Struct) -> bytes:
    """The document as bytes, for people to read too; equal bodies give equal bytes."""
    text = msgspec.json.format(msgspec.json.encode(body), indent=1)
    sealed = _Sealed(FORMAT_VERSION, checksum_of(text), msgspec.Raw(text))
    return msgspec.json.encode(sealed) + b"\n"


def unseal(data: bytes, kind: type[Body] | Any, *, path: str) -> Body:
    """The body of a document; raises `SnapshotDamagedError` or, for another version, `ConfigurationError`."""
    try:
        version = msgspec.json.decode(data, type=_Versioned).version
        if version != FORMAT_VERSION:
            raise ConfigurationError(
                f'"{path}" is of format version {version}, and this Cutwater reads version {FORMAT_VERSION}',
                hint="run the job with the Cutwater that wrote it, or a newer one",
            )
        sealed = msgspec.json.decode(data, type=_Sealed)
        text = bytes(sealed.body)
        found = checksum_of(text)
        if found != sealed.checksum:
            raise _damaged(path, f"its checksum differs (expected {sealed.checksum}, found {found})")
        body: Body = msgspec.json.decode(text, type=kind)
        return body
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _damaged(path, f"{len(data)} bytes: {error}") from error


def _damaged(path: str, detail: str) -> SnapshotDamagedError:
    return SnapshotDamagedError(f'"{path}" is damaged', detail=detail)

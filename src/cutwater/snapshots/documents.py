"""How does a small JSON document prove that it is whole, and of a version that we can read?

    {"version": 1, "checksum": "<xxh3_128 of the body's bytes>", "body": {…}, "signature": "<HMAC of the body's bytes>"}

Manifests carry state inline, and one flipped character of it would still be JSON; hence the checksum. A job with a
secret signs what it writes, and believes in nothing that is not signed.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from cutwater.errors import ConfigurationError, SnapshotDamagedError, SnapshotUntrustedError
from cutwater.signatures import Secret
from cutwater.snapshots.checksums import checksum_of
from cutwater.snapshots.format import FORMAT_VERSION

Body = TypeVar("Body")


class _Versioned(msgspec.Struct, frozen=True):
    version: int


class _Sealed(msgspec.Struct, frozen=True):
    version: int
    checksum: str
    body: msgspec.Raw
    signature: str = ""


def seal(body: msgspec.Struct, *, about: str = "", secret: Secret | None = None) -> bytes:
    """The document as bytes, for people to read too; equal bodies give equal bytes.

    `about`: what it is, and where, if it may be in no other place. A signature holds only for that.
    """
    text = msgspec.json.format(msgspec.json.encode(body), indent=1)
    signature = "" if secret is None else secret.signature(text, about=about)
    sealed = _Sealed(FORMAT_VERSION, checksum_of(text), msgspec.Raw(text), signature)
    return msgspec.json.encode(sealed) + b"\n"


def unseal(data: bytes, kind: type[Body] | Any, *, path: str, about: str = "", secret: Secret | None = None) -> Body:
    """The body of a document; raises `SnapshotDamagedError` or, for another version, `ConfigurationError`.

    With a secret: only of one that was signed with it; `SnapshotUntrustedError` if it was not.
    """
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
        if secret is not None and not secret.accepts(sealed.signature, text, about=about):
            raise _untrusted(path, "it was signed with another one" if sealed.signature else "it is not signed")
        body: Body = msgspec.json.decode(text, type=kind)
        return body
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _damaged(path, f"{len(data)} bytes: {error}") from error


def _untrusted(path: str, detail: str) -> SnapshotUntrustedError:
    return SnapshotUntrustedError(
        f'"{path}" does not bear the signature of the job\'s secret',
        detail=detail,
        hint="restore a snapshot of this job; one that you trust can be signed: cutwater state sign",
    )


def _damaged(path: str, detail: str) -> SnapshotDamagedError:
    return SnapshotDamagedError(f'"{path}" is damaged', detail=detail)

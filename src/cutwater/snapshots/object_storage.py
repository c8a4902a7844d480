"""How do snapshots lie in an object store: S3 and what speaks like it, Google Cloud Storage, Azure?

A file is created if absent by one conditional request, so drivers that publish in the same instant are fenced from each
other as on local files. `object_stores` says how a store is found, and with which credentials.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cutwater.errors import StorageError
from cutwater.object_stores import HASTE_SECONDS, is_azure, open_store, reason_of
from cutwater.snapshots.paths import parts_of_path

_PROBE = ".cutwater-probe"
_WRITING = ("write", "create")
_PARTS_AT_A_TIME = 3
"""Of a large file that goes up in parts of 5 MB."""


class ObjectStorage:
    """Files below one prefix of a bucket. May block; for several threads at a time."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._store = open_store(url)
        # Importable, now that the store is open.
        import obstore

        self._obstore: Any = obstore
        self._exceptions: Any = obstore.exceptions

    def write(self, path: str, data: bytes) -> None:
        with self._explained("write", path):
            self._obstore.put(self._store, _key(path), data)

    def create_if_absent(self, path: str, data: bytes) -> bool:
        try:
            with self._explained("create", path):
                self._obstore.put(self._store, _key(path), data, mode="create")
        except _AlreadyThere:
            return False
        return True

    def read(self, path: str) -> bytes:
        with self._explained("read", path):
            return bytes(self._obstore.get(self._store, _key(path)).bytes())

    def upload(self, path: str, local: str) -> None:
        with self._explained("write", path):
            self._obstore.put(self._store, _key(path), Path(local), max_concurrency=_PARTS_AT_A_TIME)

    def download(self, path: str, local: str) -> None:
        with self._explained("read", path), open(local, "xb") as file:
            file.writelines(self._obstore.get(self._store, _key(path)).stream())

    def exists(self, path: str) -> bool:
        return self.size_bytes(path) is not None

    def size_bytes(self, path: str) -> int | None:
        try:
            with self._explained("look at", path):
                return int(self._obstore.head(self._store, _key(path))["size"])
        except _NotThere:
            return None

    def list(self, prefix: str) -> list[str]:
        with self._explained("list", prefix):
            pages = self._obstore.list(self._store, prefix=_key(prefix) or None)
            return sorted(found["path"] for page in pages for found in page)

    def delete(self, path: str) -> None:
        with contextlib.suppress(_NotThere), self._explained("delete", path):
            self._obstore.delete(self._store, _key(path))

    def delete_folder(self, path: str) -> None:
        while files := self.list(path):
            # Azure stops where another process has deleted a file meanwhile: then others may be left.
            with contextlib.suppress(_NotThere), self._explained("delete", path):
                self._obstore.delete(self._store, files)
                return

    def check_writable(self) -> None:
        """Without patience: someone waits for the answer, and a wrong address stays wrong."""
        probe = f"{_PROBE}-{uuid.uuid4().hex}"
        hasty = open_store(self._url, patience_seconds=HASTE_SECONDS)
        with self._explained("write", probe):
            self._obstore.put(hasty, probe, b"")
            self._obstore.delete(hasty, probe)

    def __repr__(self) -> str:
        return f"ObjectStorage({self._url!r})"

    @contextlib.contextmanager
    def _explained(self, verb: str, path: str) -> Iterator[None]:
        full = f"{self._url.rstrip('/')}/{path}"
        try:
            yield
        except (self._exceptions.NotFoundError, FileNotFoundError) as error:
            if verb in _WRITING:  # then it is the bucket that is not there
                raise _refused(verb, full, error) from error
            raise _NotThere(f'"{full}" does not exist') from error
        except self._exceptions.AlreadyExistsError as error:
            raise _AlreadyThere(f'"{full}" is there already') from error
        except (self._exceptions.BaseError, OSError) as error:
            raise _refused(verb, full, error) from error


def _refused(verb: str, full: str, error: Exception) -> StorageError:
    bucket = "container" if is_azure(full) else "bucket"
    return StorageError(
        f'can\'t {verb} "{full}"',
        detail=reason_of(error),
        hint=f"does the {bucket} exist, is it reachable from here, and have these credentials the right to it?",
    )


def _key(path: str) -> str:
    return "/".join(parts_of_path(path))


class _NotThere(StorageError):
    """There is no such file."""


class _AlreadyThere(StorageError):
    """There is such a file."""

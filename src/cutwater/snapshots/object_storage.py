"""How do snapshots lie in an object store: S3 and what speaks like it, Google Cloud Storage, Azure?

Credentials and endpoint come from the environment (AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL, AWS_ALLOW_HTTP, …) or the
machine's role, in the driver and in every slot. A file is created if absent by one conditional request, so drivers that
publish in the same instant are fenced from each other as on local files.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cutwater.errors import ConfigurationError, StorageError
from cutwater.snapshots.paths import parts_of_path

SCHEMES = ("s3", "s3a", "gs", "az", "abfs", "abfss")
_PROBE = ".cutwater-probe"
_WRITING = ("write", "create")
_PARTS_AT_A_TIME = 3
"""Of a large file that goes up in parts of 5 MB."""


class ObjectStorage:
    """Files below one prefix of a bucket. May block; for several threads at a time."""

    def __init__(self, url: str) -> None:
        try:
            import obstore
            from obstore import exceptions
            from obstore.store import from_url
        except ImportError as error:
            raise ConfigurationError(
                f'storage "{url}" needs a library that is not installed',
                hint='pip install "cutwater[object-storage]", in the driver and on every worker',
            ) from error
        self._url = url
        self._obstore: Any = obstore
        self._exceptions: Any = exceptions
        try:
            # Spark spells it s3a.
            self._store: Any = from_url(url.replace("s3a://", "s3://", 1))
        except (ValueError, exceptions.BaseError) as error:
            raise ConfigurationError(f'storage "{url}" can\'t be opened', detail=str(error)) from error

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
        files = self.list(path)
        if files:
            with contextlib.suppress(_NotThere), self._explained("delete", path):
                self._obstore.delete(self._store, files)

    def check_writable(self) -> None:
        probe = f"{_PROBE}-{uuid.uuid4().hex}"
        self.write(probe, b"")
        self.delete(probe)

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
    return StorageError(
        f'can\'t {verb} "{full}"',
        detail=str(error),
        hint="does the bucket exist, is it reachable from here, and have these credentials the right to it?",
    )


def _key(path: str) -> str:
    return "/".join(parts_of_path(path))


class _NotThere(StorageError):
    """There is no such file."""


class _AlreadyThere(StorageError):
    """There is such a file."""

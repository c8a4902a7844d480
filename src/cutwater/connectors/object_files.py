"""How do the files of sources and sinks lie in an object store?

There are no folders and no second names: a path is a key. An object appears when its upload is complete, so what a
killed process was writing is never seen. To publish is to let the store copy the object unless the name is taken: one
request on Google Cloud Storage and Azure; on S3 an upload in parts, whose last step has the condition. A store that
knows no such copy is asked whether the name is taken, and then copies. That suffices: the name of a file of output has
its job, run, attempt and number in it, so all who ever write to it write the same. Azure may answer before it has
copied: then the name is taken, by an object without content.
"""

from __future__ import annotations

import contextlib
import errno
import io
import time
from collections.abc import Iterator
from functools import partial
from typing import Any, BinaryIO, cast

from cutwater.connectors.file_system import FileFacts, FoundFile
from cutwater.connectors.globs import fixed_prefix, has_magic, is_finished_below, matcher
from cutwater.connectors.ranged_reader import open_ranged
from cutwater.object_stores import PATIENCE_SECONDS, is_azure, reason_of

#: Of an upload in parts. A smaller object goes up in one request.
_PART_BYTES = 8 << 20
_PARTS_AT_A_TIME = 3
#: What S3 copies at a time.
_COPIED_BYTES_MAX = 5 << 30
#: Between two looks whether Azure has copied.
_PAUSE_SECONDS = 0.1


class ObjectFiles:
    """A `FileSystem`: the objects of one bucket or container."""

    is_remote = True

    def __init__(self, root: str, store: Any) -> None:
        """`root`: the URL of the store, s3://bucket, say."""
        import obstore  # it is installed: the store is open

        self._root = root
        self._store = store

        self._obstore: Any = obstore

    def create(self, path: str) -> BinaryIO:
        options = {"buffer_size": _PART_BYTES, "max_concurrency": _PARTS_AT_A_TIME}
        with self._explained(path):
            return cast(
                BinaryIO, _Upload(self, path, self._obstore.open_writer(self._store, self._key(path), **options))
            )

    def sync(self, file: BinaryIO) -> None:
        file.close()

    def sync_folder(self, folder: str) -> None:
        """What the store has acknowledged survives, with its name."""

    def make_folder(self, folder: str) -> None:
        """There are none."""

    def open(self, path: str) -> BinaryIO:
        facts = self.facts(path)
        if facts is None:
            raise FileNotFoundError(errno.ENOENT, "no such object", path)
        return open_ranged(partial(self._range, path), facts.size_bytes)

    def publish(self, path: str, name: str) -> None:
        try:
            self._publish(path, name)
        except FileExistsError:  # perhaps by a process that died when the copy had begun
            self._wait_for_content(path, name)
            raise
        self._wait_for_content(path, name)

    def same(self, path: str, other: str) -> bool:
        """Two keys, two objects."""
        for each in (path, other):
            if self.facts(each) is None:
                raise FileNotFoundError(errno.ENOENT, "no such object", each)
        return path == other

    def delete(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError), self._explained(path):
            self._obstore.delete(self._store, self._key(path))

    def facts(self, path: str) -> FileFacts | None:
        if not self._key(path):
            return None
        with contextlib.suppress(FileNotFoundError), self._explained(path):
            return _facts(self._obstore.head(self._store, self._key(path)))
        return None

    def names(self, folder: str) -> list[str]:
        with self._explained(folder):
            inside = self._obstore.list_with_delimiter(self._store, self._key(folder) or None)
        paths = [*inside["common_prefixes"], *(found["path"] for found in inside["objects"])]
        # Some stores, and people with some tools, keep an empty object for the folder itself.
        return [path.rpartition("/")[2] for path in paths if path != self._key(folder)]

    def is_folder(self, path: str) -> bool:
        with self._explained(path):
            return any(self._obstore.list(self._store, self._key(path) or None, chunk_size=1))

    def matching(self, pattern: str) -> Iterator[FoundFile]:
        facts = self.facts(pattern)
        if facts is not None:
            yield FoundFile(pattern, facts)
            return
        if not has_magic(pattern):
            pattern = f"{pattern}/*"
        folder, matches = fixed_prefix(pattern), matcher(pattern)
        is_flat = pattern.rpartition("/")[0] == folder
        for found in self._flat(folder) if is_flat else self._deep(folder):
            path = f"{self._root}/{found['path']}"
            if matches.fullmatch(path) and is_finished_below(folder, path):
                yield FoundFile(path, _facts(found))

    # How the store is asked.

    def _flat(self, folder: str) -> Iterator[Any]:
        with self._explained(folder):
            yield from self._obstore.list_with_delimiter(self._store, self._key(folder) or None)["objects"]

    def _deep(self, folder: str) -> Iterator[Any]:
        with self._explained(folder):
            for page in self._obstore.list(self._store, self._key(folder) or None):
                yield from page

    def _publish(self, path: str, name: str) -> None:
        exceptions = self._obstore.exceptions
        with self._explained(name):
            try:
                self._copy(path, name, overwrite=False)
            except (exceptions.NotSupportedError, NotImplementedError):
                if self.facts(name) is not None:
                    raise FileExistsError(errno.EEXIST, "exists", name) from None
                self._copy(path, name, overwrite=True)

    def _copy(self, path: str, name: str, *, overwrite: bool) -> None:
        self._obstore.copy(self._store, self._key(path), self._key(name), overwrite=overwrite)

    def _wait_for_content(self, path: str, name: str) -> None:
        """Until the copy is made: to delete the original before that would lose it."""
        if not is_azure(self._root):
            return
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self._size_bytes(name) == 0 and self._size_bytes(path):
            if time.monotonic() > deadline:
                raise OSError(errno.ETIMEDOUT, f"{path} was not copied within {PATIENCE_SECONDS:.0f} s", name)
            time.sleep(_PAUSE_SECONDS)

    def _size_bytes(self, path: str) -> int | None:
        facts = self.facts(path)
        return None if facts is None else facts.size_bytes

    def _range(self, path: str, start: int, length: int) -> bytes:
        with self._explained(path):
            return bytes(self._obstore.get_range(self._store, self._key(path), start=start, length=length))

    def _key(self, path: str) -> str:
        return path.removeprefix(self._root).strip("/")

    @contextlib.contextmanager
    def _explained(self, path: str) -> Iterator[None]:
        """The store's errors as those of a file system, in one line each."""
        exceptions = self._obstore.exceptions
        try:
            yield
        except (exceptions.NotFoundError, FileNotFoundError) as error:
            raise FileNotFoundError(errno.ENOENT, reason_of(error), path) from error
        except exceptions.AlreadyExistsError as error:
            raise FileExistsError(errno.EEXIST, "exists", path) from error
        except (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError) as error:
            raise PermissionError(errno.EACCES, reason_of(error), path) from error
        except FileExistsError:
            raise
        except (exceptions.BaseError, OSError) as error:
            raise OSError(errno.EIO, reason_of(error), path) from error


class _Upload(io.RawIOBase):
    """An object that is written from its start, and there when it is closed."""

    def __init__(self, files: ObjectFiles, path: str, writer: Any) -> None:
        self._files = files
        self._path = path
        self._writer = writer
        self._bytes = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._bytes += len(data)
        if self._bytes > _COPIED_BYTES_MAX:
            raise OSError(errno.EFBIG, "an object that is to be published can have 5 GiB: lower roll_bytes", self._path)
        with self._files._explained(self._path):
            self._writer.write(data)
        return len(data)

    def close(self) -> None:
        if not self.closed:
            super().close()  # also when the upload fails: it is tried once
            with self._files._explained(self._path):
                self._writer.close()


def _facts(found: Any) -> FileFacts:
    return FileFacts(int(found["size"]), int(found["last_modified"].timestamp() * 1_000_000_000))

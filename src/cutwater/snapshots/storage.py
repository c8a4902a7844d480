"""Where do snapshots lie, and what does that place promise?

Paths are relative to the storage's root, with "/" between their parts. What `write` and `create_if_absent` have
returned from survives a crash of the machine.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Protocol
from urllib.parse import urlsplit
from urllib.request import url2pathname

from cutwater.errors import ConfigurationError, StorageError
from cutwater.object_stores import SCHEMES
from cutwater.snapshots.object_storage import ObjectStorage
from cutwater.snapshots.paths import parts_of_path

_TEMPORARY = ".tmp"
_PROBE = ".cutwater-probe"
_PIECE_BYTES = 1 << 20
_FOLDER_RACES_MAX = 5
"""Whoever deletes the last file of a folder deletes the folder too, perhaps at the moment when we write to it."""


class Storage(Protocol):
    """Files below one root. May block; used by background threads, by several at a time."""

    def write(self, path: str, data: bytes) -> None:
        """Creates or replaces the file. Durable when it returns; a crash meanwhile may leave half a file."""
        ...

    def create_if_absent(self, path: str, data: bytes) -> bool:
        """Creates the file with all of its content at once. False: it was there already, and is as it was."""
        ...

    def read(self, path: str) -> bytes:
        """The whole file; raises `StorageError` if there is none."""
        ...

    def upload(self, path: str, local: str) -> None:
        """`write` with the content of a local file, piece by piece where that is possible."""
        ...

    def download(self, path: str, local: str) -> None:
        """`read` into a local file that is not there yet, piece by piece where that is possible."""
        ...

    def exists(self, path: str) -> bool:
        """Whether there is such a file."""
        ...

    def size_bytes(self, path: str) -> int | None:
        """How long the file is; None: there is none."""
        ...

    def list(self, prefix: str) -> list[str]:
        """All files below this folder, as paths from the root, sorted; none if there is no such folder."""
        ...

    def delete(self, path: str) -> None:
        """Deletes the file; none there is no error."""
        ...

    def delete_folder(self, path: str) -> None:
        """Deletes the folder and all below it; none there is no error."""
        ...

    def check_writable(self) -> None:
        """Raises `StorageError` if nothing can be written here."""
        ...


def open_storage(url: str) -> Storage:
    """A plain path or file:// URL: local files. memory://name: this process. s3:// and its kind: an object store.

    Any other scheme (hdfs://): pyarrow.fs.
    """
    if "://" not in url:
        return LocalStorage(url)
    parts = urlsplit(url)
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost"):
            raise ConfigurationError(
                f'storage "{url}" names a host', hint=f'write "file:///{parts.netloc}{parts.path}" for a local folder'
            )
        return LocalStorage(url2pathname(parts.path))
    if parts.scheme == "memory":
        return _MEMORY.setdefault(url.removeprefix("memory://"), MemoryStorage())
    if parts.scheme in SCHEMES:
        return ObjectStorage(url)
    return ArrowStorage(url)


def absolute_url(url: str) -> str:
    """As every process understands it: a relative path is one of this process's folder."""
    return (url if "://" in url else os.path.abspath(os.path.expanduser(url))).rstrip("/")


def split_url(url: str) -> tuple[str, str]:
    """The storage in which a folder is, and its name there."""
    root, _, folder = url.rstrip("/").rpartition("/")
    return root, folder


class LocalStorage:
    """A folder of a local or network file system that has hard links."""

    def __init__(self, root: str) -> None:
        self._root = os.path.abspath(os.path.expanduser(root))

    def write(self, path: str, data: bytes) -> None:
        full = self._full(path)
        with _explained("write", full):
            with _written_durably(full) as file:
                file.write(data)
            _sync_folder(os.path.dirname(full))

    def create_if_absent(self, path: str, data: bytes) -> bool:
        full = self._full(path)
        folder = os.path.dirname(full)
        with _explained("create", full):
            if os.path.exists(full):
                return False
            _make_folder(folder)
            try:
                created = _create_from_nameless(full, data)
            except (OSError, AttributeError):  # no such files on NFS and on macOS; or the folder was just deleted
                created = _create_from_temporary(full, data)
            # Also when another one created it: who builds on its being there must find it there after a crash.
            _sync_folder(folder)
            return created

    def read(self, path: str) -> bytes:
        full = self._full(path)
        with _explained("read", full), open(full, "rb", opener=_open_regular) as file:
            return file.read()

    def upload(self, path: str, local: str) -> None:
        full = self._full(path)
        with _explained("write", full):
            with open(local, "rb") as source, _written_durably(full) as file:
                shutil.copyfileobj(source, file, _PIECE_BYTES)
            _sync_folder(os.path.dirname(full))

    def download(self, path: str, local: str) -> None:
        full = self._full(path)
        with _explained("read", full), open(full, "rb", opener=_open_regular) as source, open(local, "xb") as file:
            shutil.copyfileobj(source, file, _PIECE_BYTES)

    def exists(self, path: str) -> bool:
        return os.path.isfile(self._full(path))

    def size_bytes(self, path: str) -> int | None:
        full = self._full(path)
        with _explained("look at", full), contextlib.suppress(FileNotFoundError, NotADirectoryError):
            return os.stat(full).st_size
        return None

    def list(self, prefix: str) -> list[str]:
        found = []
        folder = self._full(prefix)
        with _explained("list", folder):
            for parent, _, names in os.walk(folder, onerror=_raise_unless_missing):
                below = os.path.relpath(parent, self._root)
                found += [_joined(below, name) for name in names if not name.endswith(_TEMPORARY)]
        return sorted(found)

    def delete(self, path: str) -> None:
        full = self._full(path)
        with _explained("delete", full), contextlib.suppress(FileNotFoundError):
            os.unlink(full)
            _sync_folder(os.path.dirname(full))
            self._remove_if_empty(os.path.dirname(full))

    def delete_folder(self, path: str) -> None:
        full = self._full(path)
        with _explained("delete", full), contextlib.suppress(FileNotFoundError):
            shutil.rmtree(full)

    def check_writable(self) -> None:
        probe = f"{_PROBE}-{uuid.uuid4().hex}"
        self.write(probe, b"")
        self.delete(probe)

    def __repr__(self) -> str:
        return f"LocalStorage({self._root!r})"

    def _remove_if_empty(self, folder: str) -> None:
        """A folder goes with its last file, as in an object store."""
        with contextlib.suppress(OSError):
            while folder != self._root:
                os.rmdir(folder)
                folder = os.path.dirname(folder)

    def _full(self, path: str) -> str:
        """A link to another folder would lead out of the root just as ".." does."""
        full = os.path.join(self._root, *parts_of_path(path))
        folder = os.path.dirname(full)
        if folder != self._root and path:
            expected = os.path.join(os.path.realpath(self._root), os.path.relpath(folder, self._root))
            if os.path.realpath(folder) != expected:
                raise StorageError(f'"{full}" is not below "{self._root}"', detail="a folder on the way is a link")
        return full


class MemoryStorage:
    """Files of this process; durable as long as it lives."""

    def __init__(self) -> None:
        self._files: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def write(self, path: str, data: bytes) -> None:
        with self._lock:
            self._files[_key(path)] = bytes(data)

    def create_if_absent(self, path: str, data: bytes) -> bool:
        key = _key(path)
        with self._lock:
            if key in self._files:
                return False
            self._files[key] = bytes(data)
            return True

    def read(self, path: str) -> bytes:
        with self._lock:
            data = self._files.get(_key(path))
        if data is None:
            raise _missing(path)
        return data

    def upload(self, path: str, local: str) -> None:
        self.write(path, Path(local).read_bytes())

    def download(self, path: str, local: str) -> None:
        Path(local).write_bytes(self.read(path))

    def exists(self, path: str) -> bool:
        with self._lock:
            return _key(path) in self._files

    def size_bytes(self, path: str) -> int | None:
        with self._lock:
            data = self._files.get(_key(path))
        return None if data is None else len(data)

    def list(self, prefix: str) -> list[str]:
        with self._lock:
            return sorted(path for path in self._files if _is_below(path, prefix))

    def delete(self, path: str) -> None:
        with self._lock:
            self._files.pop(_key(path), None)

    def delete_folder(self, path: str) -> None:
        with self._lock:
            for key in [key for key in self._files if _is_below(key, path)]:
                del self._files[key]

    def check_writable(self) -> None:
        """Memory always is."""


#: Process-wide on purpose: whoever opens the same memory:// URL must find the same files.
_MEMORY: dict[str, MemoryStorage] = {}


class ArrowStorage:
    """HDFS and other file systems through pyarrow.fs, which is imported only when one is opened.

    `create_if_absent` is a look and a write, not one step: two drivers that publish in the same instant are not
    fenced from each other here.
    """

    def __init__(self, url: str) -> None:
        from pyarrow import fs

        try:
            self._fs, root = fs.FileSystem.from_uri(url)
        except (ValueError, OSError, NotImplementedError) as error:
            raise ConfigurationError(
                f'storage "{url}" can\'t be opened',
                detail=str(error),
                hint="a path, file://, memory://, s3://, gs://, abfs:// and hdfs:// are known",
            ) from error
        self._root = root.rstrip("/")
        self._selector: Any = fs.FileSelector
        self._file: Any = fs.FileType.File

    def write(self, path: str, data: bytes) -> None:
        full = self._full(path)
        with _explained("write", full):
            self._fs.create_dir(full.rpartition("/")[0], recursive=True)
            with self._fs.open_output_stream(full) as stream:
                stream.write(data)

    def create_if_absent(self, path: str, data: bytes) -> bool:
        if self.exists(path):
            return False
        self.write(path, data)
        return True

    def read(self, path: str) -> bytes:
        full = self._full(path)
        with _explained("read", full), self._fs.open_input_stream(full) as stream:
            return bytes(stream.readall())

    def upload(self, path: str, local: str) -> None:
        full = self._full(path)
        with _explained("write", full), open(local, "rb") as source:
            self._fs.create_dir(full.rpartition("/")[0], recursive=True)
            with self._fs.open_output_stream(full) as stream:
                shutil.copyfileobj(source, stream, _PIECE_BYTES)

    def download(self, path: str, local: str) -> None:
        full = self._full(path)
        with _explained("read", full), self._fs.open_input_stream(full) as stream, open(local, "xb") as file:
            shutil.copyfileobj(stream, file, _PIECE_BYTES)

    def exists(self, path: str) -> bool:
        full = self._full(path)
        with _explained("read", full):
            return bool(self._fs.get_file_info(full).type == self._file)

    def size_bytes(self, path: str) -> int | None:
        full = self._full(path)
        with _explained("look at", full):
            info = self._fs.get_file_info(full)
        return int(info.size) if info.type == self._file else None

    def list(self, prefix: str) -> list[str]:
        full = self._full(prefix)
        with _explained("list", full):
            found = self._fs.get_file_info(self._selector(full, allow_not_found=True, recursive=True))
        below = len(self._root) + 1
        return sorted(info.path[below:] for info in found if info.type == self._file)

    def delete(self, path: str) -> None:
        full = self._full(path)
        with _explained("delete", full), contextlib.suppress(FileNotFoundError):
            self._fs.delete_file(full)

    def delete_folder(self, path: str) -> None:
        full = self._full(path)
        with _explained("delete", full), contextlib.suppress(FileNotFoundError):
            self._fs.delete_dir(full)

    def check_writable(self) -> None:
        probe = f"{_PROBE}-{uuid.uuid4().hex}"
        self.write(probe, b"")
        self.delete(probe)

    def _full(self, path: str) -> str:
        return "/".join((self._root, *parts_of_path(path)))


# Names.


def _key(path: str) -> str:
    return "/".join(parts_of_path(path))


def _is_below(path: str, folder: str) -> bool:
    key = _key(folder)
    return not key or path.startswith(key + "/")


def _joined(folder: str, name: str) -> str:
    return name if folder == os.curdir else f"{folder.replace(os.sep, '/')}/{name}"


# Local files.


@contextlib.contextmanager
def _written_durably(full: str) -> Iterator[IO[bytes]]:
    """The file, new or emptied, in a folder that is made if needed; its content is durable at the end."""
    with _created(full) as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def _created(full: str) -> IO[bytes]:
    for _ in range(_FOLDER_RACES_MAX):
        _make_folder(os.path.dirname(full))
        with contextlib.suppress(FileNotFoundError):
            return open(full, "wb", opener=_open_itself)
    return open(full, "wb", opener=_open_itself)


def _open_regular(path: str, flags: int) -> int:
    """To read. A pipe or a device would let us wait for ever."""
    descriptor = _open_itself(path, flags | os.O_NONBLOCK)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "it is not a regular file")


def _open_itself(path: str, flags: int) -> int:
    """Not what a link there leads to. Who may read it, the user's umask says."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


def _create_from_nameless(full: str, data: bytes) -> bool:
    """A file that gets its name when it is whole: of a process that is killed before, nothing is left."""
    descriptor = os.open(os.path.dirname(full), os.O_WRONLY | os.O_TMPFILE, 0o666)
    with open(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(descriptor)
        open_files = os.open("/proc/self/fd", os.O_RDONLY)
        try:
            os.link(str(descriptor), full, src_dir_fd=open_files)
        except FileExistsError:
            return False
        finally:
            os.close(open_files)
    return True


def _create_from_temporary(full: str, data: bytes) -> bool:
    folder, name = os.path.split(full)
    temporary = os.path.join(folder, f".{name}.{uuid.uuid4().hex}{_TEMPORARY}")
    try:
        with _written_durably(temporary) as file:
            file.write(data)
        return _link(temporary, full)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


def _link(temporary: str, full: str) -> bool:
    try:
        os.link(temporary, full)
    except FileExistsError:
        # NFS repeats a request whose answer was lost, and so refuses a link that it has made: the count tells.
        return os.stat(temporary).st_nlink == 2
    return True


def _make_folder(folder: str) -> None:
    """Like makedirs, and every folder it made is durable in its parent."""
    if os.path.isdir(folder):
        return
    parent = os.path.dirname(folder)
    _make_folder(parent)
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder)
    _sync_folder(parent)


def _sync_folder(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _raise_unless_missing(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


# Errors.


def _missing(path: str) -> StorageError:
    return StorageError(f'"{path}" does not exist')


@contextlib.contextmanager
def _explained(verb: str, full: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        if verb == "read":
            raise _missing(full) from error
        raise _refused(verb, full, error) from error
    except OSError as error:
        raise _refused(verb, full, error) from error


def _refused(verb: str, full: str, error: OSError) -> StorageError:
    return StorageError(
        f'can\'t {verb} "{full}"',
        detail=error.strerror or str(error),
        hint="does the folder exist, is it reachable from here, has this user the right to it, and is there space?",
    )

"""Which files do connectors see, and what do they ask of them?

The file sink and the file source touch files only through `FileSystem`. Paths are those of the operating system, unless
they begin with a scheme: that of an object store (`object_files`), of HDFS (`hdfs_files`), or one that was registered.
A simulator registers its own, and the connectors run on its files with all that can happen to them.
"""

from __future__ import annotations

import errno
import glob
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import BinaryIO, Protocol

from cutwater import object_stores
from cutwater.connectors.globs import fixed_prefix, is_finished_below
from cutwater.object_stores import PATIENCE_SECONDS

HDFS = "hdfs"
SCHEMES = (*object_stores.SCHEMES, HDFS)
SERVER_HINT = "is it there, is the address right, and have these credentials (see the environment) the right to it?"


@dataclass(frozen=True, slots=True)
class FileFacts:
    size_bytes: int
    modified_ns: int


@dataclass(frozen=True, slots=True)
class FoundFile:
    path: str
    #: None: the list doesn't tell them.
    facts: FileFacts | None = None


class FileSystem(Protocol):
    """Paths are absolute. Every method may block, and raises `OSError`; any thread, several at a time."""

    #: True: a server is asked, so that nothing here may be done on the loop's thread.
    is_remote: bool

    def create(self, path: str) -> BinaryIO:
        """A new file to write to, from its start. `FileExistsError`: the name is taken.

        An object store doesn't look: no two writers use one name. Its files are there when they are synced or closed.
        """
        ...

    def sync(self, file: BinaryIO) -> None:
        """What was written to a file from `create` survives a crash of the machine; its name need not, yet.

        Nothing more is written to it.
        """
        ...

    def sync_folder(self, folder: str) -> None:
        """The names in the folder survive a crash of the machine, where the file system can promise that."""
        ...

    def make_folder(self, folder: str) -> None:
        """With those above it, if they aren't there; they survive a crash of the machine."""
        ...

    def open(self, path: str) -> BinaryIO:
        """A file to read from, with `seek` and `readline`. `FileNotFoundError`: there is none."""
        ...

    def publish(self, path: str, name: str) -> None:
        """The file appears under this name, whole, in one step. `FileExistsError`: the name is taken, also by itself.

        By another name of the same file, or a copy that the server makes: then the file is still there under its path.
        Where neither can be had it is moved.
        """
        ...

    def same(self, path: str, other: str) -> bool:
        """Whether these are two names of one file; copies are not. `FileNotFoundError`: one of them is not there."""
        ...

    def delete(self, path: str) -> None:
        """None there is no error."""
        ...

    def facts(self, path: str) -> FileFacts | None:
        """None: there is no such file."""
        ...

    def names(self, folder: str) -> list[str]:
        """What is in the folder; none if there is no such folder."""
        ...

    def is_folder(self, path: str) -> bool: ...

    def matching(self, pattern: str) -> Iterator[FoundFile]:
        """The finished files that a file, a folder or a glob names."""
        ...


def file_system_of(path: str, *, patience_seconds: float = PATIENCE_SECONDS) -> FileSystem:
    """For so long a server that is gone is asked again."""
    scheme, separator, rest = path.partition("://")
    if not separator:
        return _LOCAL
    if scheme in _OTHERS:
        return _OTHERS[scheme]()
    if scheme in SCHEMES:
        return _opened(scheme, f"{scheme}://{rest.partition('/')[0]}", patience_seconds)
    return _LOCAL


@cache
def _opened(scheme: str, root: str, patience_seconds: float) -> FileSystem:
    """Once in a process: a client has connections and threads."""
    if scheme == HDFS:
        from cutwater.connectors.hdfs_files import HdfsFiles

        return HdfsFiles(root, patience_seconds=patience_seconds)
    from cutwater.connectors.object_files import ObjectFiles

    return ObjectFiles(root, object_stores.open_store(root, patience_seconds=patience_seconds))


def is_registered(path: str) -> bool:
    scheme, separator, _ = path.partition("://")
    return bool(separator) and scheme in _OTHERS


def is_on_server(path: str) -> bool:
    """An object store's, or HDFS's."""
    scheme, separator, _ = path.partition("://")
    return bool(separator) and scheme in SCHEMES


def register(scheme: str, current: Callable[[], FileSystem]) -> None:
    """From now on paths `scheme://…` are on the file system that `current` gives, in this process."""
    _OTHERS[scheme] = current


class OperatingSystemFiles:
    """The files of the operating system."""

    is_remote = False

    def create(self, path: str) -> BinaryIO:
        return open(path, "xb", buffering=1 << 20)

    def sync(self, file: BinaryIO) -> None:
        file.flush()
        os.fsync(file.fileno())

    def sync_folder(self, folder: str) -> None:
        with suppress(OSError):
            descriptor = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def make_folder(self, folder: str) -> None:
        if os.path.isdir(folder):
            return
        parent = os.path.dirname(folder)
        self.make_folder(parent)
        with suppress(FileExistsError):
            os.mkdir(folder)
        self.sync_folder(parent)

    def open(self, path: str) -> BinaryIO:
        return open(path, "rb", buffering=1 << 20)

    def publish(self, path: str, name: str) -> None:
        try:
            os.link(path, name)
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS):
                raise
            # No hard links here (FUSE, some network mounts). Names are used by one job only, so looking is enough.
            if os.path.exists(name):
                raise FileExistsError(errno.EEXIST, "exists", name) from error
            os.rename(path, name)

    def same(self, path: str, other: str) -> bool:
        return os.path.samefile(path, other)

    def delete(self, path: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(path)

    def facts(self, path: str) -> FileFacts | None:
        with suppress(FileNotFoundError, NotADirectoryError):
            found = os.stat(path)
            return FileFacts(found.st_size, found.st_mtime_ns)
        return None

    def names(self, folder: str) -> list[str]:
        with suppress(FileNotFoundError):
            return os.listdir(folder)
        return []

    def is_folder(self, path: str) -> bool:
        return os.path.isdir(path)

    def matching(self, pattern: str) -> Iterator[FoundFile]:
        if os.path.isfile(pattern):
            yield FoundFile(pattern)
            return
        if os.path.isdir(pattern):
            root, pattern = pattern, os.path.join(glob.escape(pattern), "*")
        else:
            root = fixed_prefix(pattern)
        for path in glob.iglob(pattern, recursive=True):
            if os.path.isfile(path) and is_finished_below(root, path):
                yield FoundFile(path)


_LOCAL = OperatingSystemFiles()
#: Process-wide on purpose: a connector comes to a slot as bytes, and finds its files by their path alone.
_OTHERS: dict[str, Callable[[], FileSystem]] = {}

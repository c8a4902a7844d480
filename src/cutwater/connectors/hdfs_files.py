"""How do the files of sources and sinks lie in HDFS?

The client needs no Java. It finds name nodes, users and tickets as Hadoop's own does: by HADOOP_CONF_DIR,
HADOOP_USER_NAME and Kerberos. To publish is to rename, which the name node does in one step and refuses when the name
is taken. What was synced is on the disks of the data nodes, and names are in the name node's journal.
"""

from __future__ import annotations

import errno
import io
import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, BinaryIO, TypeVar, cast

from cutwater.connectors.bases.extras import client
from cutwater.connectors.file_system import FileFacts, FoundFile
from cutwater.connectors.globs import fixed_prefix, has_magic, is_finished_below, matcher
from cutwater.connectors.ranged_reader import open_ranged
from cutwater.errors import ConfigurationError

_PAUSE_MILLISECONDS_MAX = 2_000
_PAUSE_SECONDS = 0.2
_BUFFER_BYTES = 1 << 20
_REFUSES_FOR_NOW = "SafeModeException"
#: RPCError("org.apache.hadoop.SomeException", "What happened.\\nIts stack")
_REFUSED = re.compile(r'RPCError\("[^"]*", "(.*?)(?:\\n|"\))')
_NUMBERS: dict[type[OSError], int] = {
    FileNotFoundError: errno.ENOENT,
    FileExistsError: errno.EEXIST,
    PermissionError: errno.EACCES,
}

T = TypeVar("T")


class HdfsFiles:
    """A `FileSystem`: that of one name service."""

    is_remote = True

    def __init__(self, root: str, *, patience_seconds: float) -> None:
        """`root`: hdfs://host:port, hdfs://service, or hdfs:// for the one that Hadoop's configuration names."""
        library = client("hdfs_native", extra="hdfs")
        self._root = root
        self._patience_seconds = patience_seconds
        self._options: Any = library.WriteOptions
        # It waits twice as long after each attempt.
        patience = {
            "dfs.client.failover.max.attempts": str(max(1, round(patience_seconds * 1000 / _PAUSE_MILLISECONDS_MAX))),
            "dfs.client.failover.sleep.base.millis": "100",
            "dfs.client.failover.sleep.max.millis": str(_PAUSE_MILLISECONDS_MAX),
        }
        try:
            self._client: Any = library.Client(None if root.endswith("//") else root, patience)
        except Exception as error:  # of its own and of Rust's making
            raise ConfigurationError(f'"{root}" can\'t be opened', detail=_reason(error)) from error

    def create(self, path: str) -> BinaryIO:
        written = self.ask(path, lambda: self._client.create(self._path(path), self._options(overwrite=False)))
        return cast(BinaryIO, io.BufferedWriter(_Written(self, path, written), _BUFFER_BYTES))

    def sync(self, file: BinaryIO) -> None:
        writer = cast(io.BufferedWriter, file)
        writer.flush()
        cast(_Written, writer.raw).sync()

    def sync_folder(self, folder: str) -> None:
        """The name node answers when its journal is on disk."""

    def make_folder(self, folder: str) -> None:
        self.ask(folder, lambda: self._client.mkdirs(self._path(folder), create_parent=True))

    def open(self, path: str) -> BinaryIO:
        found = self.ask(path, lambda: self._client.read(self._path(path)))

        def fetch(start: int, length: int) -> bytes:
            return self.ask(path, lambda: bytes(found.read_range(start, length)))

        return open_ranged(fetch, len(found))

    def publish(self, path: str, name: str) -> None:
        self.ask(name, lambda: self._client.rename(self._path(path), self._path(name), overwrite=False))

    def same(self, path: str, other: str) -> bool:
        """A file has one name."""
        for each in (path, other):
            if self.facts(each) is None:
                raise FileNotFoundError(errno.ENOENT, "no such file", each)
        return path == other

    def delete(self, path: str) -> None:
        with suppress(FileNotFoundError):
            self.ask(path, lambda: self._client.delete(self._path(path)))

    def facts(self, path: str) -> FileFacts | None:
        found = self._info(path)
        return None if found is None or found.isdir else _facts(found)

    def names(self, folder: str) -> list[str]:
        return [found.path.rpartition("/")[2] for found in self._list(folder, is_deep=False)]

    def is_folder(self, path: str) -> bool:
        found = self._info(path)
        return found is not None and bool(found.isdir)

    def matching(self, pattern: str) -> Iterator[FoundFile]:
        found = self._info(pattern)
        if found is not None and not found.isdir:
            yield FoundFile(pattern, _facts(found))
            return
        if not has_magic(pattern):
            pattern = f"{pattern}/*"
        folder, matches = fixed_prefix(pattern), matcher(pattern)
        for found in self._list(folder, is_deep=pattern.rpartition("/")[0] != folder):
            path = f"{self._root}{found.path}"
            if not found.isdir and matches.fullmatch(path) and is_finished_below(folder, path):
                yield FoundFile(path, _facts(found))

    # How the name node is asked.

    def _info(self, path: str) -> Any:
        with suppress(FileNotFoundError):
            return self.ask(path, lambda: self._client.get_file_info(self._path(path)))
        return None

    def _list(self, folder: str, *, is_deep: bool) -> list[Any]:
        with suppress(FileNotFoundError):
            return self.ask(folder, lambda: list(self._client.list_status(self._path(folder), recursive=is_deep)))
        return []

    def _path(self, path: str) -> str:
        return path.removeprefix(self._root) or "/"

    def ask(self, path: str, action: Callable[[], T]) -> T:
        """The client waits for a name node that is gone. One that has just started answers, but refuses for a while.

        Raises errors of a file system, in one line each: the name node sends its stack along.
        """
        deadline = time.monotonic() + self._patience_seconds
        while True:
            try:
                return action()
            except Exception as error:
                if _REFUSES_FOR_NOW not in str(error) or time.monotonic() > deadline:
                    raise _explained(error, path) from error
            time.sleep(_PAUSE_SECONDS)


class _Written(io.RawIOBase):
    """A file that is written from its start."""

    def __init__(self, files: HdfsFiles, path: str, writer: Any) -> None:
        self._files = files
        self._path = path
        self._writer = writer

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        return self._files.ask(self._path, lambda: int(self._writer.write(data)))

    def sync(self) -> None:
        self._files.ask(self._path, self._writer.hsync)

    def close(self) -> None:
        if not self.closed:
            super().close()  # also when that fails: it is tried once
            self._files.ask(self._path, self._writer.close)


def _facts(found: Any) -> FileFacts:
    return FileFacts(int(found.length), int(found.modification_time) * 1_000_000)


def _explained(error: Exception, path: str) -> OSError:
    kind = type(error) if isinstance(error, OSError) else OSError
    return kind(_NUMBERS.get(kind, errno.EIO), _reason(error), path)


def _reason(error: Exception) -> str:
    told = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    refused = _REFUSED.search(told)
    return (refused[1] if refused is not None else told).partition("\n")[0].strip()

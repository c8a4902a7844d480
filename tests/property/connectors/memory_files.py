"""Files in memory that know what a crash of the machine would leave of them."""

from __future__ import annotations

import io
import posixpath
from collections.abc import Iterator
from typing import BinaryIO

from cutwater.connectors.file_system import FileFacts, FoundFile
from cutwater.connectors.globs import is_unfinished


class _File:
    def __init__(self) -> None:
        self.content = b""
        self.durable = b""


class _Writing(io.BytesIO):
    """Every write is in the file at once, and durable when it is synced."""

    def __init__(self, file: _File) -> None:
        super().__init__()
        self.target = file

    def write(self, data) -> int:
        written = super().write(data)
        self.target.content = self.getvalue()
        return written


class MemoryFiles:
    """A `FileSystem`. What was not synced, content or name, is gone after `crash`; what was deleted may be back."""

    is_remote = False

    def __init__(self, *, has_links: bool = True) -> None:
        self._has_links = has_links
        self._files: dict[str, _File] = {}
        self._durable: dict[str, _File] = {}

    def crash(self) -> None:
        self._files = dict(self._durable)
        for file in self._files.values():
            file.content = file.durable

    def wipe(self, folder: str) -> None:
        for files in (self._files, self._durable):
            for path in [path for path in files if path.startswith(f"{folder}/")]:
                del files[path]

    def read(self, path: str) -> bytes:
        return self._files[path].content

    def paths(self, folder: str) -> list[str]:
        return [path for path in self._files if path.startswith(f"{folder}/")]

    def create(self, path: str) -> BinaryIO:
        if path in self._files:
            raise FileExistsError(path)
        self._files[path] = _File()
        return _Writing(self._files[path])

    def sync(self, file: BinaryIO) -> None:
        assert isinstance(file, _Writing)
        file.target.durable = file.target.content

    def sync_folder(self, folder: str) -> None:
        inside = [path for path in {*self._files, *self._durable} if posixpath.dirname(path) == folder]
        for path in inside:
            if path in self._files:
                self._durable[path] = self._files[path]
            else:
                del self._durable[path]

    def make_folder(self, folder: str) -> None:
        pass

    def open(self, path: str) -> BinaryIO:
        if path not in self._files:
            raise FileNotFoundError(path)
        return io.BytesIO(self._files[path].content)

    def publish(self, path: str, name: str) -> None:
        if path not in self._files:
            raise FileNotFoundError(path)
        if name in self._files:
            raise FileExistsError(name)
        self._files[name] = self._files[path]
        if not self._has_links:
            del self._files[path]

    def same(self, path: str, other: str) -> bool:
        if path not in self._files or other not in self._files:
            raise FileNotFoundError(path)
        return self._files[path] is self._files[other]

    def delete(self, path: str) -> None:
        self._files.pop(path, None)

    def facts(self, path: str) -> FileFacts | None:
        file = self._files.get(path)
        return None if file is None else FileFacts(len(file.content), 0)

    def names(self, folder: str) -> list[str]:
        return sorted(
            {path[len(folder) + 1 :].partition("/")[0] for path in self._files if path.startswith(f"{folder}/")}
        )

    def is_folder(self, path: str) -> bool:
        return True

    def matching(self, pattern: str) -> Iterator[FoundFile]:
        yield from (FoundFile(f"{pattern}/{name}") for name in self.names(pattern) if not is_unfinished(name))

"""How does a finished file get from pending to its final name, whatever a crash or another process did meanwhile?"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import BinaryIO, cast

import xxhash

from cutwater.connectors.checksummed import Checksummed
from cutwater.connectors.contract import Pieces
from cutwater.connectors.file_joining import join
from cutwater.connectors.file_system import FileSystem, file_system_of
from cutwater.connectors.prepared_files import PENDING, Committable, PreparedFile, RolledFile, is_piece_of
from cutwater.errors import StorageError

CopyName = Callable[[Committable], str]
"""Names a pending file for a copy, so that it is deleted like others if a crash leaves it behind."""

_PIECE_BYTES = 1 << 20
_SPOOL_BYTES = 32 << 20


class Publisher:
    """Publishes in one folder."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    @property
    def files(self) -> FileSystem:
        return file_system_of(self.folder)

    @contextmanager
    def guarded(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StorageError(f"files can't be published in {self.folder!r}", detail=str(error)) from error

    def publish_all(
        self, prepared: Iterable[Committable], attached: Mapping[str, Pieces], *, copy_name: CopyName
    ) -> None:
        folders = set()
        for file in prepared:
            if isinstance(file, RolledFile):
                self._publish_rolled(file, attached, copy_name(file))
            else:
                self._publish(file, attached.get(file.final), copy_name)
            folders.add(os.path.join(self.folder, file.partition) if file.partition else self.folder)
        for folder in sorted(folders):
            self.files.sync_folder(folder)

    def is_rolled(self, file: PreparedFile) -> bool:
        """Whether it is a piece of a file that was published here: by a job that went on from where it is held."""
        folder = os.path.dirname(self.final_path(file))
        return any(is_piece_of(file.final, name) for name in self.files.names(folder))

    def final_path(self, file: Committable, folder: str | None = None) -> str:
        return os.path.join(folder or self.folder, file.partition, file.final)

    def _publish(self, file: PreparedFile, attached: Pieces | None, copy_name: CopyName) -> None:
        """From pending to final, in any state in which a crash, or someone who does the same, may have left it."""
        self.make_partition(file)
        if file.folder in ("", self.folder) and self._publish_pending(file, is_last_chance=attached is None):
            return
        if self.files.facts(self.final_path(file)) is not None:
            return
        if attached is None and file.folder in ("", self.folder):
            raise self._lost(file)
        self._publish_copy(file, attached or partial(self.read_prepared, file), copy_name(file))

    def _publish_rolled(self, file: RolledFile, attached: Mapping[str, Pieces], name: str) -> None:
        """Joined as one, without those that were published by themselves: by a job restored from where they are held.

        The pieces stay: a savepoint may be copying them, and of another run they are not ours to delete.
        """
        self.make_partition(file)
        final = self.final_path(file)
        if self.files.facts(final) is not None:
            return
        pieces = [piece for piece in file.pieces if self.files.facts(self.final_path(piece)) is None]
        if not pieces:
            return
        with ExitStack() as open_files:
            try:
                sources = [self._opened(piece, attached.get(piece.final), open_files) for piece in pieces]
            except FileNotFoundError as error:
                if self.files.facts(final) is not None:  # published by someone else just now
                    return
                if not self._is_elsewhere(file) or len(pieces) < len(file.pieces):
                    raise self._lost(file) from error
                sources = self._opened_elsewhere(file, open_files)
            self._write_pending(name, lambda target: join(file.format, sources, target), final=final)

    def _opened(self, piece: PreparedFile, attached: Pieces | None, open_files: ExitStack) -> tuple[BinaryIO, int]:
        """A piece to be sought in, and the size of its header. `FileNotFoundError`: it is not there."""
        path = self._pending_path(piece)
        facts = file_system_of(path).facts(path)
        if facts is not None and facts.size_bytes == piece.size_bytes:
            return open_files.enter_context(file_system_of(path).open(path)), piece.header_bytes
        if attached is not None:
            return open_files.enter_context(_checked_copy(piece, attached)), piece.header_bytes
        if facts is not None:
            raise _damaged(path, piece, facts.size_bytes)
        path = self.final_path(piece, piece.folder)
        return open_files.enter_context(file_system_of(path).open(path)), piece.header_bytes

    def _opened_elsewhere(self, file: RolledFile, open_files: ExitStack) -> list[tuple[BinaryIO, int]]:
        """From where they were joined; those that weren't are there by themselves."""
        paths = [(self.final_path(file, file.folder), 0)]
        paths += [(self.final_path(piece, file.folder), piece.header_bytes) for piece in file.pieces]
        there = [(path, header) for path, header in paths if file_system_of(path).facts(path) is not None]
        if paths[0] not in there:
            raise self._lost(file)
        return [(open_files.enter_context(file_system_of(path).open(path)), header) for path, header in there]

    def make_partition(self, file: Committable) -> None:
        if file.partition:
            self.files.make_folder(os.path.join(self.folder, file.partition))

    def _is_elsewhere(self, file: Committable) -> bool:
        return file.folder not in ("", self.folder)

    def _publish_pending(self, file: PreparedFile, *, is_last_chance: bool) -> bool:
        """False: it is not there, or damaged while there is another copy."""
        pending, final = self._pending_path(file), self.final_path(file)
        facts = self.files.facts(pending)
        if facts is None:
            return False
        if facts.size_bytes != file.size_bytes:
            if is_last_chance:
                raise _damaged(pending, file, facts.size_bytes)
            return False
        try:
            self.files.publish(pending, final)
        except FileExistsError as error:
            with suppress(FileNotFoundError):  # gone: published by someone else just now
                if not (self.files.same(pending, final) or self._has_content(final, file)):
                    raise StorageError(
                        f"the name of output file {final!r} is taken",
                        detail=f"it is not the file that this job prepared as {pending!r}",
                        hint="give every job its own folder, or every sink its own uid",
                    ) from error
        except FileNotFoundError:
            if self.files.facts(final) is None:
                raise
        self.files.delete(pending)
        return True

    def _has_content(self, path: str, file: PreparedFile) -> bool:
        """Whether a copy of the file was published; the file itself may be back after a crash of the machine."""
        checksum = xxhash.xxh3_128()
        with self.files.open(path) as found:
            while piece := found.read(_PIECE_BYTES):
                checksum.update(piece)
        return checksum.hexdigest() == file.checksum

    def _publish_copy(self, file: PreparedFile, pieces: Pieces, name: str) -> None:
        """Brings the file here from elsewhere; of a crash meanwhile only a pending copy is left."""

        def write(target: Checksummed) -> None:
            for piece in pieces():
                target.write(piece)
            if file.checksum and target.checksum() != file.checksum:
                raise _damaged(file.final, file, target.size_bytes)

        self._write_pending(name, write, final=self.final_path(file))

    def _write_pending(self, name: str, write: Callable[[Checksummed], None], *, final: str) -> None:
        """A new file, which appears when it is whole."""
        folder = os.path.join(self.folder, PENDING)
        path = os.path.join(folder, name)
        try:
            self.files.make_folder(folder)
            with Checksummed(self.files.create(path)) as target:
                write(target)
                self.files.sync(target.file)
            with suppress(FileExistsError):  # published by someone else just now: a name has one content
                self.files.publish(path, final)
        finally:
            self.files.delete(path)

    def read_prepared(self, file: PreparedFile) -> Iterator[bytes]:
        """The content of a file from where it was prepared. It may be published meanwhile."""
        for path in (self._pending_path(file), self.final_path(file, file.folder)):
            with suppress(FileNotFoundError):
                found = file_system_of(path).open(path)
                with found:
                    while piece := found.read(_PIECE_BYTES):
                        yield piece
                return
        raise self._lost(file)

    def _pending_path(self, file: PreparedFile) -> str:
        return os.path.join(file.folder or self.folder, PENDING, file.pending)

    def _lost(self, file: Committable) -> StorageError:
        final = self.final_path(file, file.folder)
        pieces = file.pieces if isinstance(file, RolledFile) else (file,)
        return StorageError(
            f"prepared file {file.final!r} is lost",
            detail=f"neither {final!r} nor {self._pending_path(pieces[0])!r} exists",
            hint="put it back; or, to go on without its records, put an empty file of that name into "
            f"{self.folder!r}. Savepoints have copies of such files, checkpoints don't",
        )


def _checked_copy(piece: PreparedFile, attached: Pieces) -> BinaryIO:
    """Among the temporary files of this process, which vanish with it."""
    copy = Checksummed(cast(BinaryIO, tempfile.SpooledTemporaryFile(_SPOOL_BYTES)))  # noqa: SIM115 — the caller does
    for part in attached():
        copy.write(part)
    if piece.checksum and copy.checksum() != piece.checksum:
        raise _damaged(piece.final, piece, copy.size_bytes)
    copy.file.seek(0)
    return copy.file


def _damaged(path: str, file: PreparedFile, size_bytes: int) -> StorageError:
    return StorageError(
        f"prepared file {path!r} is damaged",
        detail=f"it had {file.size_bytes} bytes when it was prepared, now {size_bytes}"
        if size_bytes != file.size_bytes
        else "its checksum differs from when it was prepared",
        hint="restore from an earlier checkpoint",
    )

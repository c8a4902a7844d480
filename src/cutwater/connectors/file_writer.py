"""How do the records of one task become finished files that wait for their checkpoint?"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from cutwater.batches import Batch
from cutwater.connectors.checksummed import Checksummed
from cutwater.connectors.contract import SinkWriter, WriterContext
from cutwater.connectors.file_formats import Encoder
from cutwater.connectors.partitioning import Partitioning, separated
from cutwater.connectors.prepared_files import PENDING, PreparedFile, RolledFile, decode_prepared, rolled
from cutwater.connectors.rolling import Rolling
from cutwater.errors import StorageError
from cutwater.protocol.ids import CheckpointId

if TYPE_CHECKING:
    from cutwater.connectors.file_sink import FileSink


@dataclass(frozen=True, slots=True)
class _Open:
    """A file that is being written."""

    pending: str
    final: str
    file: Checksummed
    encoder: Encoder
    started_seconds: float


@dataclass(frozen=True, slots=True)
class _Finished:
    file: PreparedFile
    started_seconds: float
    is_full: bool


class FileWriter(SinkWriter):
    """Fills pending files, one for each folder. The first record after a barrier opens it: there are no empty files."""

    def __init__(self, sink: FileSink, context: WriterContext) -> None:
        super().__init__(sink)
        self._settings = sink
        self._files = sink.files
        self._folder = os.path.join(sink.folder, PENDING)
        self._owner = sink.owner(context.job_id, context.uid, context.run)
        self._context = context
        self._extension = sink.extension
        self._columns = sink.columns()
        self._partitioning = Partitioning(sink.partition_by, context.wall_ms)
        self._rolling = Rolling(roll_bytes=sink.roll_bytes, roll_seconds=sink.roll_seconds)
        self._number = 0
        #: By folder; the one that was written to last is the last one.
        self._open: dict[str, _Open] = {}
        self._finished: list[_Finished] = []
        self._released = False
        #: Pieces of files that were published. They are kept for a while: a savepoint may be copying them.
        self._joined: list[str] = []

    def write(self, batch: Batch) -> None:
        self._guard(lambda: self._write(batch))

    def prepare(self, checkpoint: CheckpointId) -> list[bytes]:
        self._guard(self._finish_all)
        if self._finished:
            # The snapshot will name them: their names must not be lost when the machine crashes.
            self._guard(lambda: self._files.sync_folder(self._folder))
        for finished in self._finished:
            self._rolling.add(finished.file, started_seconds=finished.started_seconds, is_full=finished.is_full)
        self._finished = []
        due = self._rolling.take_due(self._context.now_seconds(), all_of_them=self._released)
        self._released = False
        files = [rolled(pieces, self._settings.format) for pieces in due]
        held = [replace(piece, held=True) for piece in self._rolling.held()]
        return [msgspec.msgpack.encode(file) for file in (*files, *held)]

    def release(self) -> None:
        self._released = True

    def commit(self, committables: Sequence[bytes]) -> None:
        super().commit(committables)
        files = map(decode_prepared, committables)
        joined = [piece.pending for file in files if isinstance(file, RolledFile) for piece in file.pieces]
        if joined and joined != self._joined:
            earlier, self._joined = self._joined, joined
            self._delete(earlier)

    def close(self) -> None:
        for file in self._open.values():
            file.encoder.abandon()
            with suppress(OSError):
                file.file.close()
        unprepared = [file.pending for file in self._open.values()]
        unprepared += [finished.file.pending for finished in self._finished]
        self._open = {}
        self._delete((*unprepared, *self._joined))

    def _write(self, batch: Batch) -> None:
        batch, times = separated(batch)
        if self._columns is not None:
            batch = self._columns.of(batch)
        for partition, records in self._partitioning.divided(batch, times):
            file = self._open.pop(partition, None) or self._started()
            self._open[partition] = file
            if file.encoder.write(records) >= self._settings.roll_bytes:
                self._finish(partition, is_full=True)
            elif len(self._open) > self._settings.open_files:
                self._finish(next(iter(self._open)), is_full=False)

    def _started(self) -> _Open:
        pending, final = self._name(self._owner.pending), self._name(self._owner.final)
        self._number += 1
        self._files.make_folder(self._folder)
        file = Checksummed(self._files.create(os.path.join(self._folder, pending)))
        encoder = self._settings.encoder()
        encoder.start(file)
        return _Open(pending, final, file, encoder, self._context.now_seconds())

    def _finish_all(self) -> None:
        for partition in list(self._open):
            self._finish(partition, is_full=False)

    def _finish(self, partition: str, *, is_full: bool) -> None:
        opened = self._open[partition]
        opened.encoder.finish()
        file = opened.file
        self._files.sync(file.file)
        file.close()
        del self._open[partition]
        prepared = PreparedFile(
            opened.pending,
            opened.final,
            file.size_bytes,
            self._settings.folder,
            file.checksum(),
            partition,
            opened.encoder.header_bytes,
        )
        self._finished.append(_Finished(prepared, opened.started_seconds, is_full))

    def _name(self, form: Callable[..., str]) -> str:
        task = self._context
        return form(subtask=task.subtask, attempt=task.attempt, number=self._number, extension=self._extension)

    def _delete(self, pending: Iterable[str]) -> None:
        for name in pending:
            with suppress(OSError):  # recovery deletes what is left
                self._files.delete(os.path.join(self._folder, name))

    def _guard(self, action: Callable[[], None]) -> None:
        try:
            action()
        except OSError as error:
            raise StorageError(f"a file in {self._folder!r} can't be written", detail=str(error)) from error

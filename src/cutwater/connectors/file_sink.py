"""How do records become files that appear exactly once?

A writer fills files under `{folder}/.pending`. At the barrier it finishes them and puts their names into the snapshot;
when the checkpoint is complete they are published under their final names, by a hard link that fails if the name is
taken. A recovering job publishes what the snapshot names and deletes what else earlier attempts of the same run left
pending; files of other runs are never touched. Readers who pass over hidden names (Spark, DuckDB, pandas, a glob) see
committed records only.

A savepoint holds copies of the files that were prepared for it. So it can be restored whatever became of them, and into
any folder; a checkpoint can be restored into another folder as long as the files are where they were.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import BinaryIO, Literal

import msgspec
import pyarrow as pa
import xxhash

from cutwater.batches import Batch
from cutwater.connectors.contract import Attachment, Delivery, Pieces, Sink, SinkWriter, WriterContext
from cutwater.connectors.file_formats import Encoder, JsonLinesEncoder, NonFinite, ParquetEncoder, TextEncoder
from cutwater.connectors.file_system import FileSystem, file_system_of
from cutwater.connectors.prepared_files import PENDING, PUBLISHED, Owner, PreparedFile, decode_prepared
from cutwater.connectors.settings import absolute_path, check_choice, check_positive
from cutwater.errors import ConfigurationError, StorageError
from cutwater.protocol.ids import AttemptNumber, CheckpointId

Format = Literal["text", "json", "parquet"]
IfExists = Literal["refuse", "append"]

_EXTENSIONS = {"text": "txt", "json": "jsonl", "parquet": "parquet"}
_ROLL_BYTES = 128 << 20
_PIECE_BYTES = 1 << 20


def files(
    folder: str | os.PathLike[str],
    *,
    format: Format = "text",  # noqa: A002 — the word that Spark uses
    roll_bytes: int = _ROLL_BYTES,
    schema: pa.Schema | None = None,
    if_exists: IfExists = "refuse",
    non_finite: NonFinite = "refuse",
) -> FileSink:
    """A sink of rolling files in a folder that the driver and all slots see.

    `text`: str(value) a line; `json`: a JSON value a line; `parquet`: columns, from typed batches, dicts, dataclasses,
    named tuples, or tuples (c0, c1, …).

    Transactional: with exactly-once checkpoints each record is in exactly one visible file, whatever crashes. Files
    appear when a checkpoint completes, at least one per writing task and checkpoint (more when one grows beyond
    `roll_bytes`), so the checkpoint interval decides how many and how late. Nothing is ever deleted or overwritten
    but pending files of the same run of the job. The order of records over files isn't promised.

    `if_exists`: a job that starts from nothing and finds output of another run in the folder is refused, or "append"s
    to it; one that is restored goes on. `non_finite`: what JSON can't say (NaN, infinity) is refused, or written as
    "null" or as "string": "NaN", "Infinity", "-Infinity".
    """
    check_choice("format", format, ("text", "json", "parquet"))
    check_choice("if_exists", if_exists, ("refuse", "append"))
    check_choice("non_finite", non_finite, ("refuse", "null", "string"))
    check_positive("roll_bytes", roll_bytes)
    if schema is not None and format != "parquet":
        raise ConfigurationError(f"format {format!r} takes no schema", hint="only Parquet files have one")
    return FileSink(
        absolute_path(folder),
        format,
        roll_bytes,
        schema,
        title=os.fspath(folder),
        if_exists=if_exists,
        non_finite=non_finite,
    )


def text(folder: str | os.PathLike[str], *, roll_bytes: int = _ROLL_BYTES, if_exists: IfExists = "refuse") -> FileSink:
    """`files(folder, format="text")`"""
    return files(folder, format="text", roll_bytes=roll_bytes, if_exists=if_exists)


def json_lines(
    folder: str | os.PathLike[str],
    *,
    roll_bytes: int = _ROLL_BYTES,
    if_exists: IfExists = "refuse",
    non_finite: NonFinite = "refuse",
) -> FileSink:
    """`files(folder, format="json")`"""
    return files(folder, format="json", roll_bytes=roll_bytes, if_exists=if_exists, non_finite=non_finite)


def parquet(
    folder: str | os.PathLike[str],
    *,
    roll_bytes: int = _ROLL_BYTES,
    schema: pa.Schema | None = None,
    if_exists: IfExists = "refuse",
) -> FileSink:
    """`files(folder, format="parquet")`"""
    return files(folder, format="parquet", roll_bytes=roll_bytes, schema=schema, if_exists=if_exists)


class FileSink(Sink):
    """The settings, and everything that happens to files once they are finished."""

    delivery = Delivery.TRANSACTIONAL

    def __init__(
        self,
        folder: str,
        format: Format,  # noqa: A002
        roll_bytes: int,
        schema: pa.Schema | None,
        *,
        title: str,
        if_exists: IfExists = "refuse",
        non_finite: NonFinite = "refuse",
    ) -> None:
        self.folder = folder
        self.format = format
        self.roll_bytes = roll_bytes
        self._schema = schema
        self._title = title
        self._if_exists = if_exists
        self._non_finite: NonFinite = non_finite

    @property
    def name(self) -> str:
        return f"{self.format}({self._title})"

    @property
    def files(self) -> FileSystem:
        return file_system_of(self.folder)

    def writer(self, context: WriterContext) -> SinkWriter:
        return FileWriter(self, context)

    def encoder(self) -> Encoder:
        match self.format:
            case "text":
                return TextEncoder()
            case "json":
                return JsonLinesEncoder(self._non_finite)
            case "parquet":
                return ParquetEncoder(self._schema)

    def check(self, *, restores: bool = False) -> None:
        probe = os.path.join(self.folder, PENDING, f"probe-{uuid.uuid4().hex}")
        try:
            self.files.make_folder(os.path.dirname(probe))
            self.files.create(probe).close()
            self.files.delete(probe)
            there = [name for name in self.files.names(self.folder) if name.startswith(PUBLISHED)]
        except OSError as error:
            raise StorageError(
                f"folder {self.folder!r} can't be written",
                detail=str(error),
                hint="it must be a folder, or not exist yet, and the user who runs the job needs to write there",
            ) from error
        if there and not restores and self._if_exists == "refuse":
            raise ConfigurationError(
                f"folder {self.folder!r} has the output of another run",
                detail=f"{min(there)!r} is one of {len(there)}; a job that starts anew would add all its output to it",
                hint='choose another folder, empty this one, go on with restore=…, or write if_exists="append"',
            )

    def commit(self, committables: Sequence[bytes]) -> None:
        with self._guarded():
            self._publish_all(map(decode_prepared, committables), {}, copy_name=_nameless_copy)

    def recover(
        self,
        *,
        job_id: str,
        uid: str,
        committables: Sequence[bytes],
        attempt: AttemptNumber | None = None,
        run: str = "0",
        attached: Mapping[str, Pieces] | None = None,
    ) -> None:
        owner = Owner(job_id, uid, run)

        def copy_name() -> str:
            """A copy that a crash leaves behind is deleted like any other file of this attempt."""
            extension = f"copy-{uuid.uuid4().hex}"
            return owner.pending(subtask=0, attempt=attempt or 0, number=0, extension=extension)

        with self._guarded():
            self._publish_all(map(decode_prepared, committables), attached or {}, copy_name=copy_name)
            folder = os.path.join(self.folder, PENDING)
            for name in self.files.names(folder):
                if owner.is_left_over(name, before=attempt):
                    self.files.delete(os.path.join(folder, name))

    def attachments(self, committables: Sequence[bytes]) -> Sequence[Attachment]:
        prepared = map(decode_prepared, committables)
        return [Attachment(file.final, partial(self._read_prepared, file)) for file in prepared]

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StorageError(f"files can't be published in {self.folder!r}", detail=str(error)) from error

    def _publish_all(
        self, prepared: Iterable[PreparedFile], attached: Mapping[str, Pieces], *, copy_name: Callable[[], str]
    ) -> None:
        published = False
        for file in prepared:
            self._publish(file, attached.get(file.final), copy_name)
            published = True
        if published:
            self.files.sync_folder(self.folder)

    def _publish(self, file: PreparedFile, attached: Pieces | None, copy_name: Callable[[], str]) -> None:
        """From pending to final, in any state in which a crash, or someone who does the same, may have left it."""
        if file.folder in ("", self.folder) and self._publish_pending(file, is_last_chance=attached is None):
            return
        if self.files.facts(os.path.join(self.folder, file.final)) is not None:
            return
        if attached is None and file.folder in ("", self.folder):
            raise self._lost(file)
        self._publish_copy(file, attached or partial(self._read_prepared, file), copy_name())

    def _publish_pending(self, file: PreparedFile, *, is_last_chance: bool) -> bool:
        """False: it is not there, or damaged while there is another copy."""
        pending, final = self._pending_path(file), os.path.join(self.folder, file.final)
        facts = self.files.facts(pending)
        if facts is None:
            return False
        if facts.size_bytes != file.size_bytes:
            if is_last_chance:
                raise _damaged(pending, file, facts.size_bytes)
            return False
        try:
            self.files.link(pending, final)
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
        folder = os.path.join(self.folder, PENDING)
        copy = os.path.join(folder, name)
        try:
            self.files.make_folder(folder)
            with _Checksummed(self.files.create(copy)) as written:
                for piece in pieces():
                    written.write(piece)
                self.files.sync(written.file)
            if file.checksum and written.checksum() != file.checksum:
                raise _damaged(file.final, file, written.size_bytes)
            with suppress(FileExistsError):  # published by someone else just now: a name has one content
                self.files.link(copy, os.path.join(self.folder, file.final))
        finally:
            self.files.delete(copy)

    def _read_prepared(self, file: PreparedFile) -> Iterator[bytes]:
        """The content of a file from where it was prepared. It may be published meanwhile."""
        for path in (self._pending_path(file), os.path.join(file.folder or self.folder, file.final)):
            with suppress(FileNotFoundError):
                found = file_system_of(path).open(path)
                with found:
                    while piece := found.read(_PIECE_BYTES):
                        yield piece
                return
        raise self._lost(file)

    def _pending_path(self, file: PreparedFile) -> str:
        return os.path.join(file.folder or self.folder, PENDING, file.pending)

    def _lost(self, file: PreparedFile) -> StorageError:
        final = os.path.join(file.folder or self.folder, file.final)
        return StorageError(
            f"prepared file {file.final!r} is lost",
            detail=f"neither {final!r} nor {self._pending_path(file)!r} exists",
            hint="put it back; or, to go on without its records, put an empty file of that name into "
            f"{self.folder!r}. Savepoints have copies of such files, checkpoints don't",
        )


class FileWriter(SinkWriter):
    """Fills pending files. A file is opened by the first record after a barrier: there are no empty files."""

    def __init__(self, sink: FileSink, context: WriterContext) -> None:
        super().__init__(sink)
        self._files = sink.files
        self._roll_bytes = sink.roll_bytes
        self._target = sink.folder
        self._folder = os.path.join(sink.folder, PENDING)
        self._owner = Owner(context.job_id, context.uid, context.run)
        self._context = context
        self._extension = _EXTENSIONS[sink.format]
        self._encoder = sink.encoder()
        self._number = 0
        self._file: _Checksummed | None = None
        self._open_name = ""
        self._finished: list[PreparedFile] = []

    def write(self, batch: Batch) -> None:
        self._guard(lambda: self._write(batch))

    def prepare(self, checkpoint: CheckpointId) -> list[bytes]:
        self._guard(self._finish)
        if self._finished:
            # The snapshot will name them: their names must not be lost when the machine crashes.
            self._guard(lambda: self._files.sync_folder(self._folder))
        committables = [msgspec.msgpack.encode(file) for file in self._finished]
        self._finished = []
        return committables

    def close(self) -> None:
        names = [file.pending for file in self._finished]
        if self._file is not None:
            self._encoder.abandon()
            with suppress(OSError):
                self._file.close()
            names.append(self._open_name)
        self._file = None
        for name in names:
            with suppress(OSError):  # recovery deletes what is left
                self._files.delete(os.path.join(self._folder, name))

    def _write(self, batch: Batch) -> None:
        if self._file is None:
            self._start()
        if self._encoder.write(batch) >= self._roll_bytes:
            self._finish()

    def _start(self) -> None:
        self._open_name = self._name(self._owner.pending)
        self._files.make_folder(self._folder)
        self._file = _Checksummed(self._files.create(os.path.join(self._folder, self._open_name)))
        self._encoder.start(self._file)

    def _finish(self) -> None:
        if self._file is None:
            return
        self._encoder.finish()
        self._files.sync(self._file.file)
        self._file.close()
        size_bytes, checksum = self._file.size_bytes, self._file.checksum()
        self._file = None
        final = self._name(self._owner.final)
        self._finished.append(PreparedFile(self._open_name, final, size_bytes, self._target, checksum))
        self._number += 1

    def _name(self, form: Callable[..., str]) -> str:
        task = self._context
        return form(subtask=task.subtask, attempt=task.attempt, number=self._number, extension=self._extension)

    def _guard(self, action: Callable[[], None]) -> None:
        try:
            action()
        except OSError as error:
            raise StorageError(f"a file in {self._folder!r} can't be written", detail=str(error)) from error


class _Checksummed:
    """A file that is written once, from its start, and knows what was written."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.size_bytes = 0
        self._hash = xxhash.xxh3_128()

    def write(self, data: bytes) -> int:
        self._hash.update(data)
        self.size_bytes += len(data)
        return self.file.write(data)

    def tell(self) -> int:
        return self.size_bytes

    def flush(self) -> None:
        self.file.flush()

    def close(self) -> None:
        self.file.close()

    @property
    def closed(self) -> bool:
        return self.file.closed

    def checksum(self) -> str:
        return self._hash.hexdigest()

    def __enter__(self) -> _Checksummed:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _nameless_copy() -> str:
    return f"copy-{uuid.uuid4().hex}"


def _damaged(path: str, file: PreparedFile, size_bytes: int) -> StorageError:
    return StorageError(
        f"prepared file {path!r} is damaged",
        detail=f"it had {file.size_bytes} bytes when it was prepared, now {size_bytes}"
        if size_bytes != file.size_bytes
        else "its checksum differs from when it was prepared",
        hint="restore from an earlier checkpoint",
    )

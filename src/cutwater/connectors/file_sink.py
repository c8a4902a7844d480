"""How do records become files that appear exactly once?

A writer fills files under `{folder}/.pending`. At the barrier it finishes them and puts their names into the snapshot;
when the checkpoint is complete they are published under their final names, by a hard link that fails if the name is
taken. A recovering job publishes what the snapshot names and deletes its other pending files. Readers who pass over
hidden names (Spark, DuckDB, pandas, a glob) see committed records only.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import BinaryIO, Literal

import msgspec
import pyarrow as pa

from cutwater.batches import Batch
from cutwater.connectors.contract import Delivery, Sink, SinkWriter, WriterContext
from cutwater.connectors.file_formats import Encoder, JsonLinesEncoder, ParquetEncoder, TextEncoder
from cutwater.connectors.settings import absolute_path, check_choice, check_positive
from cutwater.errors import ConfigurationError, StorageError
from cutwater.protocol.ids import AttemptNumber, CheckpointId

Format = Literal["text", "json", "parquet"]

_PENDING = ".pending"
_EXTENSIONS = {"text": "txt", "json": "jsonl", "parquet": "parquet"}
_ROLL_BYTES = 128 << 20


def files(
    folder: str | os.PathLike[str],
    *,
    format: Format = "text",  # noqa: A002 — the word that Spark uses
    roll_bytes: int = _ROLL_BYTES,
    schema: pa.Schema | None = None,
) -> FileSink:
    """A sink of rolling files in a folder that the driver and all slots see.

    `text`: str(value) a line; `json`: a JSON value a line; `parquet`: columns, from typed batches, dicts, dataclasses,
    named tuples, or tuples (c0, c1, …).

    Transactional: with exactly-once checkpoints each record is in exactly one visible file, whatever crashes. Files
    appear when a checkpoint completes, at least one per writing task and checkpoint (more when one grows beyond
    `roll_bytes`), so the checkpoint interval decides how many and how late. Nothing is ever deleted or overwritten
    but the job's own pending files. The order of records over files isn't promised.
    """
    check_choice("format", format, ("text", "json", "parquet"))
    check_positive("roll_bytes", roll_bytes)
    if schema is not None and format != "parquet":
        raise ConfigurationError(f"format {format!r} takes no schema", hint="only Parquet files have one")
    return FileSink(absolute_path(folder), format, roll_bytes, schema, title=os.fspath(folder))


def text(folder: str | os.PathLike[str], *, roll_bytes: int = _ROLL_BYTES) -> FileSink:
    """`files(folder, format="text")`"""
    return files(folder, format="text", roll_bytes=roll_bytes)


def json_lines(folder: str | os.PathLike[str], *, roll_bytes: int = _ROLL_BYTES) -> FileSink:
    """`files(folder, format="json")`"""
    return files(folder, format="json", roll_bytes=roll_bytes)


def parquet(
    folder: str | os.PathLike[str], *, roll_bytes: int = _ROLL_BYTES, schema: pa.Schema | None = None
) -> FileSink:
    """`files(folder, format="parquet")`"""
    return files(folder, format="parquet", roll_bytes=roll_bytes, schema=schema)


class _PendingFile(msgspec.Struct, frozen=True):
    """A committable: a finished file, its size and the name under which it will appear."""

    pending: str
    final: str
    size_bytes: int


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
    ) -> None:
        self.folder = folder
        self.format = format
        self.roll_bytes = roll_bytes
        self._schema = schema
        self._title = title

    @property
    def name(self) -> str:
        return f"{self.format}({self._title})"

    def writer(self, context: WriterContext) -> SinkWriter:
        return FileWriter(self, context)

    def encoder(self) -> Encoder:
        match self.format:
            case "text":
                return TextEncoder()
            case "json":
                return JsonLinesEncoder()
            case "parquet":
                return ParquetEncoder(self._schema)

    def check(self) -> None:
        probe = os.path.join(self.folder, _PENDING, f"probe-{uuid.uuid4().hex}")
        try:
            os.makedirs(os.path.dirname(probe), exist_ok=True)
            with open(probe, "xb"):
                pass
            os.unlink(probe)
        except OSError as error:
            raise StorageError(
                f"folder {self.folder!r} can't be written",
                detail=str(error),
                hint="it must be a folder, or not exist yet, and the user who runs the job needs to write there",
            ) from error

    def commit(self, committables: Sequence[bytes]) -> None:
        for committable in committables:
            self._publish(msgspec.msgpack.decode(committable, type=_PendingFile))
        if committables:
            _sync_folder(self.folder)

    def recover(
        self, *, job_id: str, uid: str, committables: Sequence[bytes], attempt: AttemptNumber | None = None
    ) -> None:
        self.commit(committables)
        # The whole name: the prefix of sink "out" also begins the files of a sink "out-2".
        ours = re.compile(re.escape(_pending_prefix(job_id, uid)) + r"\d+-a(\d+)-\d+\..*")
        pending_folder = os.path.join(self.folder, _PENDING)
        with suppress(FileNotFoundError):
            for name in os.listdir(pending_folder):
                match = ours.fullmatch(name)
                if match and (attempt is None or int(match[1]) < attempt):
                    with suppress(FileNotFoundError):
                        os.unlink(os.path.join(pending_folder, name))

    def _publish(self, file: _PendingFile) -> None:
        """From pending to final, in any state in which a crash, or someone who does the same, may have left it."""
        pending = os.path.join(self.folder, _PENDING, file.pending)
        final = os.path.join(self.folder, file.final)
        try:
            size_bytes = os.stat(pending).st_size
        except FileNotFoundError as error:
            if os.path.exists(final):
                return
            raise StorageError(
                f"committed file {file.final!r} is lost",
                detail=f"neither {final!r} nor {pending!r} exists",
                hint="if it was moved away on purpose, put it back (an empty file will do) until the job has restarted",
            ) from error
        if size_bytes != file.size_bytes:
            raise StorageError(
                f"prepared file {pending!r} is damaged",
                detail=f"it had {file.size_bytes} bytes when it was prepared, now {size_bytes}",
                hint="restore from an earlier checkpoint",
            )
        try:
            _create_link(pending, final)
        except FileExistsError as error:
            with suppress(FileNotFoundError):  # gone: published by someone else just now
                if not os.path.samefile(pending, final):
                    raise StorageError(
                        f"the name of output file {final!r} is taken",
                        detail=f"it is not the file that this job prepared as {pending!r}",
                        hint="give every job its own folder, or every sink its own uid",
                    ) from error
        except FileNotFoundError:
            if not os.path.exists(final):
                raise
        with suppress(FileNotFoundError):
            os.unlink(pending)


class FileWriter(SinkWriter):
    """Fills pending files. A file is opened by the first record after a barrier: there are no empty files."""

    def __init__(self, sink: FileSink, context: WriterContext) -> None:
        super().__init__(sink)
        self._roll_bytes = sink.roll_bytes
        self._folder = os.path.join(sink.folder, _PENDING)
        self._extension = _EXTENSIONS[sink.format]
        self._context = context
        self._encoder = sink.encoder()
        self._number = 0
        self._file: BinaryIO | None = None
        self._open_name = ""
        self._finished: list[_PendingFile] = []

    def write(self, batch: Batch) -> None:
        self._guard(lambda: self._write(batch))

    def prepare(self, checkpoint: CheckpointId) -> list[bytes]:
        self._guard(self._finish)
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
                os.unlink(os.path.join(self._folder, name))

    def _write(self, batch: Batch) -> None:
        if self._file is None:
            self._start()
        if self._encoder.write(batch) >= self._roll_bytes:
            self._finish()

    def _start(self) -> None:
        task = self._context
        self._open_name = (
            f"{_pending_prefix(task.job_id, task.uid)}{task.subtask}-a{task.attempt}-{self._number}.{self._extension}"
        )
        os.makedirs(self._folder, exist_ok=True)
        self._file = open(os.path.join(self._folder, self._open_name), "xb", buffering=1 << 20)  # noqa: SIM115
        self._encoder.start(self._file)

    def _finish(self) -> None:
        if self._file is None:
            return
        self._encoder.finish()
        self._file.flush()
        os.fsync(self._file.fileno())
        size_bytes = self._file.tell()
        self._file.close()
        self._file = None
        self._finished.append(_PendingFile(self._open_name, self._final_name(), size_bytes))
        self._number += 1

    def _final_name(self) -> str:
        task = self._context
        return (
            f"part-{quote(task.job_id)}-{quote(task.uid)}-{task.subtask:05d}-a{task.attempt}"
            f"-{self._number:06d}.{self._extension}"
        )

    def _guard(self, action: Callable[[], None]) -> None:
        try:
            action()
        except OSError as error:
            raise StorageError(f"a file in {self._folder!r} can't be written", detail=str(error)) from error


def quote(name: str) -> str:
    """The name as a part of a file name: without -, and different for different names; long ones are shortened."""
    quoted = re.sub(rb"[^A-Za-z0-9_.]", lambda match: b"%%%02X" % match.group()[0], name.encode()).decode()
    if len(quoted) <= 64:
        return quoted
    return f"{quoted[:40]}~{hashlib.sha256(name.encode()).hexdigest()[:20]}"


def _pending_prefix(job_id: str, uid: str) -> str:
    return f"{quote(job_id)}-{quote(uid)}-"


def _create_link(pending: str, final: str) -> None:
    """Makes the file appear under the final name, too, unless that is taken."""
    try:
        os.link(pending, final)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS):
            raise
        # No hard links here (FUSE, some network mounts). Names are used by one job only, so looking first is enough.
        if os.path.exists(final):
            raise FileExistsError(errno.EEXIST, "exists", final) from error
        os.rename(pending, final)


def _sync_folder(folder: str) -> None:
    """Makes new names in the folder survive a power failure, where the file system can."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

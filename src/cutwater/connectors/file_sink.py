"""How do records become files that appear exactly once?

A writer fills files under `{folder}/.pending`. At the barrier it finishes them and puts their names into the snapshot;
when the checkpoint is complete they are published under their final names, in one step that fails if the name is taken:
a hard link, a copy that an object store makes, a rename of HDFS. A recovering job publishes what the snapshot names and
deletes what else earlier attempts of the same run left pending; files of other runs are never touched. Readers who pass
over hidden names (Spark, DuckDB, pandas, a glob) see committed records only.

A savepoint holds copies of the files that were prepared for it. So it can be restored whatever became of them, and into
any folder; a checkpoint can be restored into another folder as long as the files are where they were.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Literal, TypedDict, TypeGuard, Unpack

import pyarrow as pa

from cutwater.connectors.avro_format import AvroEncoder, fastavro
from cutwater.connectors.column_formats import Columns, CsvEncoder, ParquetEncoder
from cutwater.connectors.contract import Attachment, Delivery, Pieces, Sink, SinkWriter, WriterContext
from cutwater.connectors.file_compression import COMPRESSIONS, SUFFIXES, Compression
from cutwater.connectors.file_formats import Encoder, JsonLinesEncoder, NonFinite, TextEncoder
from cutwater.connectors.file_publishing import Publisher
from cutwater.connectors.file_system import SERVER_HINT, FileSystem, file_system_of
from cutwater.connectors.file_writer import FileWriter
from cutwater.connectors.hive_folders import is_inside
from cutwater.connectors.partitions import PartitionBy, partitions_of
from cutwater.connectors.prepared_files import (
    FORMATS,
    PENDING,
    PUBLISHED,
    Committable,
    Owner,
    PreparedFile,
    RolledFile,
    decode_prepared,
)
from cutwater.connectors.remote_files import WriterOnThread
from cutwater.connectors.settings import absolute_path, check_choice, check_delimiter, check_positive
from cutwater.durations import Duration, parse_duration
from cutwater.errors import ConfigurationError, StorageError
from cutwater.object_stores import HASTE_SECONDS
from cutwater.protocol.ids import AttemptNumber

Format = Literal["text", "json", "csv", "parquet", "avro"]
IfExists = Literal["refuse", "append"]

_COLUMNAR = ("csv", "parquet", "avro")
_ROLL_BYTES = 128 << 20
_OPEN_FILES = 32
#: Of each open file of a partitioned sink: there are many.
_SMALL_GROUP_BYTES = 4 << 20


class Layout(TypedDict, total=False):
    """What the files of all formats have in common: see `files`."""

    roll_bytes: int
    roll_every: Duration | None
    partition_by: PartitionBy | None
    open_files: int
    compression: Compression | None
    if_exists: IfExists


def files(
    folder: str | os.PathLike[str],
    *,
    format: Format = "text",  # noqa: A002 — the word that Spark uses
    schema: pa.Schema | None = None,
    non_finite: NonFinite = "refuse",
    header: bool = True,
    delimiter: str = ",",
    **layout: Unpack[Layout],
) -> FileSink:
    """A sink of rolling files in a folder that the driver and all slots see: a path, or a URL of S3 (`s3://`), Google
    Cloud Storage (`gs://`), Azure (`az://`, `abfs://`) or HDFS (`hdfs://`).

    `text`: str(value) a line; `json`: a JSON value a line, which for rows, dicts, dataclasses and named tuples is an
    object; `csv` (with a header line, unless `header=False`; cells are separated by `delimiter`), `parquet` and
    `avro` (extra "avro"): columns, from typed batches, dicts, dataclasses, named tuples, or tuples (c0, c1, …), of
    `schema` or as the first records have them.

    Transactional: with exactly-once checkpoints each record is in exactly one visible file, whatever crashes. Files
    appear when a checkpoint completes, at least one per writing task and checkpoint (more when one grows beyond
    `roll_bytes`), so the checkpoint interval decides how many and how late. Nothing is ever deleted or overwritten
    but pending files of the same run of the job. The order of records over files isn't promised.

    `roll_every="10min"`: what a task writes within that time appears as one file, or more if it grows beyond
    `roll_bytes`; at the first checkpoint after that time, at the end of the job, and after a failure at once. Until
    then the pieces that each checkpoint needs are pending; then they are joined.

    `partition_by`: folders by columns, which are then not in the files, or by time: "country",
    [cw.partitions.day(), "country"]. A task has at most `open_files` (32) open at a time.

    `compression`: "gzip", "zstd" or "none". Text, JSON and CSV are not compressed unless told so, Parquet is (snappy).

    `if_exists`: a job that starts from nothing and finds output of another run in the folder is refused, or "append"s
    to it; one that is restored goes on. `non_finite`: what JSON can't say (NaN, infinity) is refused, or written as
    "null" or as "string": "NaN", "Infinity", "-Infinity".
    """
    check_choice("format", format, tuple(FORMATS))
    check_choice("non_finite", non_finite, ("refuse", "null", "string"))
    if schema is not None and format not in _COLUMNAR:
        raise ConfigurationError(f"format {format!r} takes no schema", hint="only formats with columns have one")
    if format == "avro":
        fastavro()
    check_delimiter(delimiter)
    if format != "csv" and (header is not True or delimiter != ","):
        raise ConfigurationError(f"format {format!r} takes no header and no delimiter", hint='format="csv" does')
    return FileSink(
        absolute_path(folder),
        format,
        schema=schema,
        title=os.fspath(folder),
        non_finite=non_finite,
        header=header,
        delimiter=delimiter,
        **layout,
    )


def text(folder: str | os.PathLike[str], **layout: Unpack[Layout]) -> FileSink:
    """`files(folder, format="text")`"""
    return files(folder, format="text", **layout)


def json_lines(
    folder: str | os.PathLike[str], *, non_finite: NonFinite = "refuse", **layout: Unpack[Layout]
) -> FileSink:
    """`files(folder, format="json")`"""
    return files(folder, format="json", non_finite=non_finite, **layout)


def csv(
    folder: str | os.PathLike[str],
    *,
    schema: pa.Schema | None = None,
    header: bool = True,
    delimiter: str = ",",
    **layout: Unpack[Layout],
) -> FileSink:
    """`files(folder, format="csv")`"""
    return files(folder, format="csv", schema=schema, header=header, delimiter=delimiter, **layout)


def parquet(folder: str | os.PathLike[str], *, schema: pa.Schema | None = None, **layout: Unpack[Layout]) -> FileSink:
    """`files(folder, format="parquet")`"""
    return files(folder, format="parquet", schema=schema, **layout)


def avro(folder: str | os.PathLike[str], *, schema: pa.Schema | None = None, **layout: Unpack[Layout]) -> FileSink:
    """`files(folder, format="avro")`"""
    return files(folder, format="avro", schema=schema, **layout)


class FileSink(Sink):
    """The settings, and everything that happens to files once they are finished."""

    delivery = Delivery.TRANSACTIONAL
    takes_times = True

    def __init__(
        self,
        folder: str,
        format: Format,  # noqa: A002
        *,
        title: str,
        schema: pa.Schema | None = None,
        non_finite: NonFinite = "refuse",
        header: bool = True,
        delimiter: str = ",",
        roll_bytes: int = _ROLL_BYTES,
        roll_every: Duration | None = None,
        partition_by: PartitionBy | None = None,
        open_files: int = _OPEN_FILES,
        compression: Compression | None = None,
        if_exists: IfExists = "refuse",
    ) -> None:
        check_choice("if_exists", if_exists, ("refuse", "append"))
        check_positive("roll_bytes", roll_bytes)
        check_positive("open_files", open_files)
        if compression is not None:
            check_choice("compression", compression, COMPRESSIONS)
        self.folder = folder
        self.format: Format = format
        self.roll_bytes = roll_bytes
        self.roll_seconds = None if roll_every is None else parse_duration(roll_every, option="roll_every")
        self.partition_by = partitions_of(partition_by)
        self.open_files = open_files
        self._compression: Compression | None = compression
        self._schema = schema
        self._title = title
        self._if_exists = if_exists
        self._non_finite: NonFinite = non_finite
        self._header = header
        self._delimiter = delimiter
        if format == "text" and any(isinstance(part, str) for part in self.partition_by):
            raise ConfigurationError(
                "lines of text have no columns to partition by",
                hint='choose another format, or a time: partition_by=cw.partitions.day("column")',
            )

    @property
    def name(self) -> str:
        return f"{self.format}({self._title})"

    @property
    def files(self) -> FileSystem:
        return file_system_of(self.folder)

    @property
    def _publisher(self) -> Publisher:
        return Publisher(self.folder)

    def writer(self, context: WriterContext) -> SinkWriter:
        writer = FileWriter(self, context)
        return WriterOnThread(writer, context) if self.files.is_remote else writer

    def owner(self, job_id: str, uid: str, run: str) -> Owner:
        return Owner(job_id, uid, run)

    @property
    def extension(self) -> str:
        """What the names of its files end with. Parquet and Avro compress inside, which names don't tell."""
        if self._compression is None or self.format in ("parquet", "avro"):
            return FORMATS[self.format]
        return FORMATS[self.format] + SUFFIXES[self._compression]

    def columns(self) -> Columns | None:
        """What makes columns of the records of one writer; None: the format has none."""
        return Columns(self._schema) if self.format in _COLUMNAR else None

    def encoder(self) -> Encoder:
        """Of one file."""
        compression = self._compression or "none"
        match self.format:
            case "text":
                return TextEncoder(compression)
            case "json":
                return JsonLinesEncoder(self._non_finite, compression)
            case "csv":
                return CsvEncoder(compression, header=self._header, delimiter=self._delimiter)
            case "parquet" if self.partition_by:
                return ParquetEncoder(self._compression, group_bytes=_SMALL_GROUP_BYTES)
            case "parquet":
                return ParquetEncoder(self._compression)
            case "avro":
                return AvroEncoder(compression)

    def check(self, *, restores: bool = False) -> None:
        probe = os.path.join(self.folder, PENDING, f"probe-{uuid.uuid4().hex}")
        files = file_system_of(self.folder, patience_seconds=HASTE_SECONDS)
        try:
            files.make_folder(os.path.dirname(probe))
            files.create(probe).close()
            files.delete(probe)
            there = [name for name in files.names(self.folder) if self._is_output(name)]
        except OSError as error:
            raise StorageError(
                f"folder {self.folder!r} can't be written",
                detail=str(error),
                hint=SERVER_HINT
                if files.is_remote
                else "it must be a folder, or not exist yet, and the user who runs the job needs to write there",
            ) from error
        if there and not restores and self._if_exists == "refuse":
            raise ConfigurationError(
                f"folder {self.folder!r} has the output of another run",
                detail=f"{min(there)!r} is one of {len(there)}; a job that starts anew would add all its output to it",
                hint='choose another folder, empty this one, go on with restore=…, or write if_exists="append"',
            )

    def _is_output(self, name: str) -> bool:
        return name.startswith(PUBLISHED) or (bool(self.partition_by) and is_inside(name))

    def commit(self, committables: Sequence[bytes]) -> None:
        with self._publisher.guarded():
            files = [file for file in map(decode_prepared, committables) if not _is_held(file)]
            self._publisher.publish_all(files, {}, copy_name=_copy_of)

    def recover(
        self,
        *,
        job_id: str,
        uid: str,
        committables: Sequence[bytes],
        attempt: AttemptNumber | None = None,
        run: str = "0",
        attached: Mapping[str, Pieces] | None = None,
        parallelism_before: int | None = None,
    ) -> None:
        owner = self.owner(job_id, uid, run)

        def copy_name(file: Committable) -> str:
            """A copy that a crash leaves behind is deleted like any other file of this attempt."""
            extension = f"copy-{uuid.uuid4().hex}"
            return owner.pending(subtask=0, attempt=attempt or 0, number=0, extension=extension)

        publisher = self._publisher
        with publisher.guarded():
            files = _latest(map(decode_prepared, committables))
            wanted = [file for file in files if not (_is_held(file) and publisher.is_rolled(file))]
            publisher.publish_all(wanted, attached or {}, copy_name=copy_name)
            folder = os.path.join(self.folder, PENDING)
            for name in self.files.names(folder):
                if owner.is_left_over(name, before=attempt):
                    self.files.delete(os.path.join(folder, name))

    def attachments(self, committables: Sequence[bytes]) -> Sequence[Attachment]:
        prepared = {file.final: file for file in _files_in(map(decode_prepared, committables))}
        read = self._publisher.read_prepared
        return [Attachment(name, partial(read, file)) for name, file in prepared.items()]


def _is_held(file: Committable) -> TypeGuard[PreparedFile]:
    return isinstance(file, PreparedFile) and file.held


def _files_in(committables: Iterable[Committable]) -> Iterator[PreparedFile]:
    for file in committables:
        if isinstance(file, RolledFile):
            yield from file.pieces
        else:
            yield file


def _latest(committables: Iterable[Committable]) -> list[Committable]:
    """Each file once: what is held in one checkpoint may be held in the next, too, or be a piece of a rolled one."""
    unique = {file.final: file for file in committables}
    pieces = {piece.final for file in unique.values() if isinstance(file, RolledFile) for piece in file.pieces}
    return [file for name, file in unique.items() if name not in pieces]


def _copy_of(file: Committable) -> str:
    """Named after what it is a copy of: it is deleted in the same way."""
    pending = file.pieces[0].pending if isinstance(file, RolledFile) else file.pending
    return f"{pending}.copy-{uuid.uuid4().hex}"

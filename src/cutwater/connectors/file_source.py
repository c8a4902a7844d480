"""How do files become a stream?"""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import Any, Literal, TypedDict, Unpack

import pyarrow as pa

from cutwater.connectors.avro_format import fastavro
from cutwater.connectors.avro_reader import AvroReader
from cutwater.connectors.contract import Discovery, ReaderContext, Source, SplitReader
from cutwater.connectors.file_compression import COMPRESSIONS, Compression, compression_of
from cutwater.connectors.file_parts import FilePart, as_split, part_of
from cutwater.connectors.file_system import SERVER_HINT, FileFacts, file_system_of, is_on_server
from cutwater.connectors.line_reader import JsonLineReader, LineReader, WithPath
from cutwater.connectors.remote_files import reader_on_thread
from cutwater.connectors.settings import absolute_path, check_choice, check_delimiter, check_positive
from cutwater.connectors.table_reader import PATH_COLUMN, CsvReader, CsvShape, ParquetReader, open_csv, open_parquet
from cutwater.connectors.tolerant_csv import TolerantCsvReader
from cutwater.errors import ConfigurationError, StorageError
from cutwater.object_stores import HASTE_SECONDS, PATIENCE_SECONDS
from cutwater.protocol.known_origins import KnownOrigins, digest_of
from cutwater.protocol.splits import Split

Path = str | os.PathLike[str]
Format = Literal["text", "csv", "json", "parquet", "avro"]
FORMATS = ("text", "csv", "json", "parquet", "avro")
#: Object stores take money for each look.
_LOOK_AT_SERVER_SECONDS = 5.0


def files(
    pattern: Path | Sequence[Path],
    *,
    format: Format = "text",  # noqa: A002 — the word that Spark uses
    watch: bool = False,
    schema: pa.Schema | None = None,
    include_path: bool = False,
    split_bytes: int = 64 << 20,
    compression: Compression | Literal["auto"] = "auto",
    header: bool = True,
    delimiter: str = ",",
) -> FileSource:
    """A source of the files that a glob (`**` for any depth), a folder, a file, or a list of these names: paths, or
    URLs of S3 (`s3://`), Google Cloud Storage (`gs://`), Azure (`az://`, `abfs://`) or HDFS (`hdfs://`).

    `text` gives lines as str; `json` the value of each line; `csv` and `parquet` give typed batches of `schema`, or of
    the first file's; `avro` (extra "avro") gives a dict for each record. CSV begins with a line of names, or with
    `header=False` has the columns of `schema` in their order, without one c0, c1, …; `delimiter` is what separates
    cells. `include_path`: (path, value) pairs, or a column `path`. Big text, JSON, Parquet and Avro files
    are cut into splits of about `split_bytes`, which several tasks read; keep it over restores.

    Text, JSON and CSV whose names end with `.gz`, `.zst` or `.zstd` are decompressed; `compression` is for names that
    don't tell. A compressed file is one split, and a restored job reads it again up to where it was.

    Bounded, unless `watch`: then files that appear later are read as well. Replayable: each record is read exactly
    once, as long as files don't change and stay where they are. A file is known by its path: what is changed or
    appended after it was discovered isn't read, not by a restored job either, and the order of files isn't promised.
    A watched file that was renamed is a new one. One that has been gone for a minute is forgotten: if a file of that
    name comes again, it is new. Files must appear complete: write them elsewhere and move them, or under a name that
    starts with `.` or `_` or ends with `.tmp`: such names are passed over (unless given in full).
    """
    given = [pattern] if isinstance(pattern, str | os.PathLike) else list(pattern)
    if not given:
        raise ConfigurationError("files() got an empty list", hint="name at least one file, folder or glob")
    check_choice("format", format, FORMATS)
    check_choice("compression", compression, ("auto", *COMPRESSIONS))
    check_positive("split_bytes", split_bytes)
    if schema is not None and format not in ("csv", "parquet"):
        raise ConfigurationError(
            f"format {format!r} takes no schema", hint="it gives Python values; use map() to give them a shape"
        )
    if compression not in ("auto", "none") and format in ("parquet", "avro"):
        raise ConfigurationError(
            f"format {format!r} takes no compression", hint="such files tell how they are compressed"
        )
    if format == "avro":
        fastavro()
    check_delimiter(delimiter)
    if format != "csv" and (header is not True or delimiter != ","):
        raise ConfigurationError(f"format {format!r} takes no header and no delimiter", hint='format="csv" does')
    return FileSource(
        given,
        format,
        watch=watch,
        schema=schema,
        include_path=include_path,
        split_bytes=split_bytes,
        compression=None if compression == "auto" else compression,
        csv_shape=CsvShape(delimiter, None if header else ()),
    )


class CsvOptions(TypedDict, total=False):
    """What `csv` takes besides: see `files`."""

    watch: bool
    include_path: bool
    compression: Compression | Literal["auto"]


def csv(
    pattern: Path | Sequence[Path],
    *,
    schema: pa.Schema | None = None,
    header: bool = True,
    delimiter: str = ",",
    **options: Unpack[CsvOptions],
) -> FileSource:
    """`files(pattern, format="csv", …)`"""
    return files(pattern, format="csv", schema=schema, header=header, delimiter=delimiter, **options)


class FileSource(Source):
    """Lists files in the driver; reads parts of them in the slots."""

    def __init__(
        self,
        patterns: Sequence[Path],
        format: Format,  # noqa: A002
        *,
        watch: bool,
        schema: pa.Schema | None,
        include_path: bool,
        split_bytes: int,
        compression: Compression | None = None,
        csv_shape: CsvShape = CsvShape(),  # noqa: B008 — a value
    ) -> None:
        self._title = ", ".join(os.fspath(pattern) for pattern in patterns)
        self._patterns = [absolute_path(pattern) for pattern in patterns]
        self._format = format
        self.can_tolerate = format in ("text", "json", "csv")  # a line can be bad alone
        self._watch = watch
        self.bounded = not watch
        self._include_path = include_path
        self._split_bytes = split_bytes
        self._compression = compression
        self._csv_shape = csv_shape
        self._schema = schema
        self._is_remote = any(map(is_on_server, self._patterns))
        if self._is_remote:
            self.discovery_interval_seconds = _LOOK_AT_SERVER_SECONDS
        if format in ("csv", "parquet"):
            columns = self._infer_schema() if schema is None else schema
            if csv_shape.columns is not None:  # all of them, also when only some are read
                self._csv_shape = replace(csv_shape, columns=tuple(columns.names))
            self._schema = with_path_column(columns) if include_path else columns

    @property
    def name(self) -> str:
        return f"files({self._title})"

    @property
    def schema(self) -> pa.Schema | None:
        return self._schema

    def narrowed(self, columns: frozenset[str], as_keys: frozenset[str]) -> Source:
        if self._schema is None:
            return self
        narrow = copy.copy(self)
        encoded = as_keys if self._format == "parquet" else frozenset[str]()
        narrow._schema = narrowed_parquet_schema(self._schema, columns, encoded)
        narrow._include_path = self._include_path and PATH_COLUMN in columns
        return narrow

    def discover(self, parallelism: int) -> Discovery:
        return self.discover_new(parallelism, KnownOrigins())

    def discover_new(self, parallelism: int, known: KnownOrigins, state: bytes = b"") -> Discovery:
        found, all_matched = self._found()
        digests = {digest_of(path): path for path in found}
        # Cut once, by the look that finds it: it may grow, and a Parquet footer is costly to read again and again.
        new = [path for digest, path in digests.items() if digest not in known.digests]
        splits = tuple(split for path in new for split in self._splits_of(path, found[path]))
        gone = known.digests.keys() - digests.keys() if self._watch and all_matched else None
        return Discovery(splits, complete=not self._watch, gone=gone)

    def check(self) -> None:
        if self._is_remote:
            self._found(patience_seconds=HASTE_SECONDS)

    def reader(self, split: Split, position: Any, context: ReaderContext) -> SplitReader:
        part = part_of(split)
        opening = partial(self._opened, part, tolerant=context.tolerant)
        if file_system_of(part.path).is_remote:
            return reader_on_thread(opening, position, context, name=f'source "{self.name}"')
        return opening(position)

    def _opened(self, part: FilePart, position: Any, *, tolerant: bool) -> SplitReader:
        match self._format:
            case "parquet":
                return ParquetReader(part, self._schema, position, include_path=self._include_path)
            case "csv":
                reader = TolerantCsvReader if tolerant else CsvReader
                compression = self._compression_of(part.path)
                return reader(
                    part,
                    self._schema,
                    position,
                    include_path=self._include_path,
                    compression=compression,
                    shape=self._csv_shape,
                )
            case "avro":
                values: SplitReader = AvroReader(part, position)
            case "json":
                values = JsonLineReader(part, position, self._compression_of(part.path), tolerant=tolerant)
            case "text":
                values = LineReader(part, position, self._compression_of(part.path), tolerant=tolerant)
        return WithPath(values, part.path) if self._include_path else values

    def _compression_of(self, path: str) -> Compression:
        return self._compression or compression_of(path)

    def _found(self, patience_seconds: float = PATIENCE_SECONDS) -> tuple[dict[str, FileFacts | None], bool]:
        """All files, with what the list tells of them, and whether each pattern names some: else a folder may not be
        mounted just now.
        """
        found: dict[str, FileFacts | None] = {}
        all_matched = True
        for pattern in self._patterns:
            files = file_system_of(pattern, patience_seconds=patience_seconds)
            with _explained(pattern) if files.is_remote else nullcontext():
                matching = {each.path: each.facts for each in files.matching(pattern)}
                is_mistaken = not matching and not self._watch and not files.is_folder(pattern)
            all_matched = all_matched and bool(matching)
            if is_mistaken:
                raise ConfigurationError(
                    f"no file matches {pattern!r}",
                    hint="check the path; watch=True waits for files to appear",
                )
            found |= matching
        return dict(sorted(found.items())), all_matched

    def _splits_of(self, path: str, listed: FileFacts | None) -> list[Split]:
        facts = listed or file_system_of(path).facts(path)
        if facts is None or not facts.size_bytes:  # gone before we had a look; or empty: it may be new next time
            return []
        modified_ns = facts.modified_ns if self._watch else None
        with suppress(FileNotFoundError):
            return [as_split(part, modified_ns=modified_ns) for part in self._cut(path, facts.size_bytes)]
        return []

    def _cut(self, path: str, size_bytes: int) -> list[FilePart]:
        match self._format:
            case "csv":
                return [FilePart(path, size_bytes, 0, 1)]
            case "parquet":
                return cut_parquet(path, self._split_bytes)
            case "text" | "json" if self._compression_of(path) != "none":
                return [FilePart(path, size_bytes, 0, size_bytes)]
            case "text" | "json" | "avro":
                starts = range(0, size_bytes, self._split_bytes)
                return [
                    FilePart(path, size_bytes, start, min(start + self._split_bytes, size_bytes)) for start in starts
                ]

    def _infer_schema(self) -> pa.Schema:
        found, _ = self._found(patience_seconds=HASTE_SECONDS)
        path = next((path for path, facts in found.items() if _has_content(path, facts)), None)
        if path is None:
            raise ConfigurationError(
                f"the schema of {self.name} can't be inferred",
                detail="there is no file with content yet",
                hint="declare it: files(…, schema=pa.schema([…]))",
            )
        if self._format == "parquet":
            with open_parquet(path) as parquet:
                return parquet.schema_arrow.remove_metadata()
        file, batches = open_csv(path, None, compression=self._compression_of(path), shape=self._csv_shape)
        with file:
            found_columns: pa.Schema = batches.schema
        if self._csv_shape.columns is None:
            return found_columns
        return pa.schema([field.with_name(f"c{index}") for index, field in enumerate(found_columns)])


@contextmanager
def _explained(pattern: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(f"files {pattern!r} can't be listed", detail=str(error), hint=SERVER_HINT) from error


def _has_content(path: str, listed: FileFacts | None) -> bool:
    facts = listed or file_system_of(path).facts(path)
    return facts is not None and facts.size_bytes > 0


def cut_parquet(path: str, split_bytes: int) -> list[FilePart]:
    """Neighbouring row groups, together at least `split_bytes` (but for the last part)."""
    facts = file_system_of(path).facts(path)
    if facts is None:
        raise FileNotFoundError(path)
    with open_parquet(path) as file:
        sizes = [file.metadata.row_group(group).total_byte_size for group in range(file.num_row_groups)]
    parts = []
    start = bytes_so_far = 0
    for group, group_bytes in enumerate(sizes):
        bytes_so_far += group_bytes
        if bytes_so_far >= split_bytes or group == len(sizes) - 1:
            parts.append(FilePart(path, facts.size_bytes, start, group + 1))
            start, bytes_so_far = group + 1, 0
    return parts


def narrowed_parquet_schema(schema: pa.Schema, columns: frozenset[str], encoded: frozenset[str]) -> pa.Schema:
    """These columns only; of these strings, the codes and dictionaries that the file has."""
    fields = [field for field in schema if field.name in columns]
    return pa.schema(
        [_encoded(field) if field.name in encoded else field for field in fields], metadata=schema.metadata
    )


def _encoded(field: pa.Field) -> pa.Field:
    if not pa.types.is_string(field.type) or field.name == PATH_COLUMN:
        return field
    return field.with_type(pa.dictionary(pa.int32(), pa.string()))


def with_path_column(schema: pa.Schema) -> pa.Schema:
    if PATH_COLUMN in schema.names:
        raise ConfigurationError(
            f"include_path would add a second column {PATH_COLUMN!r}", hint="rename the column, or leave include_path"
        )
    return schema.append(pa.field(PATH_COLUMN, pa.string()))

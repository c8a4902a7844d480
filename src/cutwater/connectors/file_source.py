"""How do files become a stream?"""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Literal

import pyarrow as pa

from cutwater.connectors.contract import Discovery, Source, SplitReader
from cutwater.connectors.file_parts import FilePart, as_split, part_of
from cutwater.connectors.file_system import file_system_of
from cutwater.connectors.line_reader import JsonLineReader, LineReader, WithPath
from cutwater.connectors.settings import absolute_path, check_choice, check_positive
from cutwater.connectors.table_reader import PATH_COLUMN, CsvReader, ParquetReader, open_csv, open_parquet
from cutwater.errors import ConfigurationError
from cutwater.protocol.known_origins import KnownOrigins, digest_of
from cutwater.protocol.splits import Split

Path = str | os.PathLike[str]
Format = Literal["text", "csv", "json", "parquet"]


def files(
    pattern: Path | Sequence[Path],
    *,
    format: Format = "text",  # noqa: A002 — the word that Spark uses
    watch: bool = False,
    schema: pa.Schema | None = None,
    include_path: bool = False,
    split_bytes: int = 64 << 20,
) -> FileSource:
    """A source of the files that a glob (`**` for any depth), a folder, a file, or a list of these names.

    `text` gives lines as str; `json` the value of each line; `csv` (with a header line) and `parquet` give typed
    batches of `schema`, or of the first file's. `include_path`: (path, value) pairs, or a column `path`. Big text,
    JSON and Parquet files are cut into splits of about `split_bytes`, which several tasks read; keep it over restores.

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
    check_choice("format", format, ("text", "csv", "json", "parquet"))
    check_positive("split_bytes", split_bytes)
    if schema is not None and format in ("text", "json"):
        raise ConfigurationError(
            f"format {format!r} takes no schema", hint="it gives Python values; use map() to give them a shape"
        )
    return FileSource(given, format, watch=watch, schema=schema, include_path=include_path, split_bytes=split_bytes)


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
    ) -> None:
        self._title = ", ".join(os.fspath(pattern) for pattern in patterns)
        self._patterns = [absolute_path(pattern) for pattern in patterns]
        self._format = format
        self._watch = watch
        self._include_path = include_path
        self._split_bytes = split_bytes
        self._schema = schema
        if format in ("csv", "parquet"):
            columns = self._infer_schema() if schema is None else schema
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

    def discover_new(self, parallelism: int, known: KnownOrigins) -> Discovery:
        paths, all_matched = self._paths()
        digests = {digest_of(path): path for path in paths}
        # Cut once, by the look that finds it: it may grow, and a Parquet footer is costly to read again and again.
        new = [path for digest, path in digests.items() if digest not in known.digests]
        splits = tuple(split for path in new for split in self._splits_of(path))
        gone = known.digests.keys() - digests.keys() if self._watch and all_matched else None
        return Discovery(splits, complete=not self._watch, gone=gone)

    def reader(self, split: Split, position: Any) -> SplitReader:
        part = part_of(split)
        match self._format:
            case "parquet":
                return ParquetReader(part, self._schema, position, include_path=self._include_path)
            case "csv":
                return CsvReader(part, self._schema, position, include_path=self._include_path)
            case "json":
                lines: LineReader = JsonLineReader(part, position)
            case "text":
                lines = LineReader(part, position)
        return WithPath(lines, part.path) if self._include_path else lines

    def _paths(self) -> tuple[list[str], bool]:
        """All files, and whether each pattern names some: else a folder may not be mounted just now."""
        found: set[str] = set()
        all_matched = True
        for pattern in self._patterns:
            files = file_system_of(pattern)
            paths = list(files.matching(pattern))
            all_matched = all_matched and bool(paths)
            if not paths and not self._watch and not files.is_folder(pattern):
                raise ConfigurationError(
                    f"no file matches {pattern!r}",
                    hint="check the path; watch=True waits for files to appear",
                )
            found.update(paths)
        return sorted(found), all_matched

    def _splits_of(self, path: str) -> list[Split]:
        facts = file_system_of(path).facts(path)
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
            case "text" | "json":
                starts = range(0, size_bytes, self._split_bytes)
                return [
                    FilePart(path, size_bytes, start, min(start + self._split_bytes, size_bytes)) for start in starts
                ]

    def _infer_schema(self) -> pa.Schema:
        paths = [path for path in self._paths()[0] if os.path.getsize(path)]
        if not paths:
            raise ConfigurationError(
                f"the schema of {self.name} can't be inferred",
                detail="there is no file with content yet",
                hint="declare it: files(…, schema=pa.schema([…]))",
            )
        if self._format == "parquet":
            with open_parquet(paths[0]) as parquet:
                return parquet.schema_arrow.remove_metadata()
        file, batches = open_csv(paths[0], None)
        with file:
            return batches.schema


def cut_parquet(path: str, split_bytes: int) -> list[FilePart]:
    """Neighbouring row groups, together at least `split_bytes` (but for the last part)."""
    size_bytes = os.stat(path).st_size
    with open_parquet(path) as file:
        sizes = [file.metadata.row_group(group).total_byte_size for group in range(file.num_row_groups)]
    parts = []
    start = bytes_so_far = 0
    for group, group_bytes in enumerate(sizes):
        bytes_so_far += group_bytes
        if bytes_so_far >= split_bytes or group == len(sizes) - 1:
            parts.append(FilePart(path, size_bytes, start, group + 1))
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

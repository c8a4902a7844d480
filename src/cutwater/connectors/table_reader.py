"""How is a CSV or Parquet file read as record batches of one schema, from any row?"""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from cutwater.batches import Batch
from cutwater.connectors.contract import SplitReader
from cutwater.connectors.file_compression import Compression, decompressed
from cutwater.connectors.file_parts import FilePart, check_size
from cutwater.connectors.file_system import file_system_of
from cutwater.errors import StorageError, UserError

PATH_COLUMN = "path"


@dataclass(frozen=True, slots=True)
class CsvShape:
    """How a CSV file is written."""

    delimiter: str = ","
    #: The columns in their order, of files without a header line; None: the first line names them.
    columns: tuple[str, ...] | None = None

    @property
    def header_rows(self) -> int:
        return 1 if self.columns is None else 0


_ROWS_MAX = 131_072


class TableReader(SplitReader):
    """Hands out slices of the batches that a file gives."""

    def __init__(self, part: FilePart, schema: pa.Schema, *, include_path: bool) -> None:
        check_size(part, may_grow=False)
        self._part = part
        self._schema = schema
        self._columns = schema.remove(schema.get_field_index(PATH_COLUMN)) if include_path else schema
        self._include_path = include_path
        self._batch: pa.RecordBatch | None = None
        self._row = 0

    def read(self, limit: int, now_seconds: float) -> Batch | None:
        while self._batch is None or self._row >= self._batch.num_rows:
            self._row = 0
            self._batch = self._next_batch()
            if self._batch is None:
                return None
        rows = self._conform(self._batch.slice(self._row, limit))
        self._row += rows.num_rows
        self._took(rows.num_rows)
        return rows

    @abstractmethod
    def _next_batch(self) -> pa.RecordBatch | None:
        """The batch from the position on; None: the part is done."""

    @abstractmethod
    def _took(self, rows: int) -> None:
        """Moves the position."""

    def _conform(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if not batch.schema.equals(self._columns):
            try:
                batch = batch.select(self._columns.names).cast(self._columns)
            except (KeyError, ValueError, pa.ArrowException) as error:
                raise table_unreadable(self._part.path, error, self._columns) from error
        if not self._include_path:
            return batch
        path = pa.repeat(pa.scalar(self._part.path, pa.string()), batch.num_rows)
        return pa.RecordBatch.from_arrays([*batch.columns, path], schema=self._schema)


class ParquetReader(TableReader):
    """Position: [row group, row in it]."""

    def __init__(
        self, part: FilePart, schema: pa.Schema, position: tuple[int, int] | None, *, include_path: bool
    ) -> None:
        super().__init__(part, schema, include_path=include_path)
        self._file = open_parquet(part.path, encoded=_encoded_columns(self._columns))
        self._group, self._row_in_group = (part.start, 0) if position is None else position
        missing = set(self._columns.names) - set(self._file.schema_arrow.names)
        if missing:
            raise table_unreadable(part.path, KeyError(f"no column {sorted(missing)}"), self._columns)
        self._batches = self._read_group()

    def _read_group(self) -> Iterator[pa.RecordBatch]:
        if self._group >= self._part.end:
            return
        columns = None if self._columns.equals(self._file.schema_arrow) else self._columns.names
        skip = self._row_in_group
        # One thread: the slots share the cores, and each has its own file.
        for batch in self._file.iter_batches(_ROWS_MAX, row_groups=[self._group], columns=columns, use_threads=False):
            yield batch.slice(min(skip, batch.num_rows))
            skip = max(0, skip - batch.num_rows)

    def _next_batch(self) -> pa.RecordBatch | None:
        while self._group < self._part.end:
            try:
                batch = next(self._batches, None)
            except (OSError, pa.ArrowException) as error:
                raise StorageError(f"file {self._part.path!r} can't be read", detail=str(error)) from error
            if batch is not None:
                return batch
            self._start_group(self._group + 1)
        return None

    def _took(self, rows: int) -> None:
        self._row_in_group += rows
        if self._row_in_group >= self._file.metadata.row_group(self._group).num_rows:
            self._start_group(self._group + 1)

    def _start_group(self, group: int) -> None:
        self._group, self._row_in_group = group, 0
        self._batches = self._read_group()

    @property
    def position(self) -> tuple[int, int]:
        return self._group, self._row_in_group

    @property
    def finished(self) -> bool:
        return self._group >= self._part.end

    def close(self) -> None:
        self._batches = iter(())  # they refer to this reader: only the collector would free the file's memory
        self._file.close(force=True)


class CsvReader(TableReader):
    """Position: the number of the next row. Resuming parses the file from its beginning: rows may span lines."""

    def __init__(
        self,
        part: FilePart,
        schema: pa.Schema,
        position: int | None,
        *,
        include_path: bool,
        compression: Compression = "none",
        shape: CsvShape = CsvShape(),
    ) -> None:
        super().__init__(part, schema, include_path=include_path)
        self._compression = compression
        self._shape = shape
        self._position = position or 0
        self._skip = self._position
        self._finished = False
        self._file, self._batches = self._open()

    def _open(self) -> tuple[BinaryIO, Any]:
        return open_csv(self._part.path, self._columns, compression=self._compression, shape=self._shape)

    def _next_batch(self) -> pa.RecordBatch | None:
        while not self._finished:
            try:
                batch = next(self._batches, None)
            except (OSError, pa.ArrowException) as error:
                raise table_unreadable(self._part.path, error, self._columns) from error
            if batch is None:
                self._finished = True
            elif batch.num_rows > self._skip:
                batch, self._skip = batch.slice(self._skip), 0
                return batch
            else:
                self._skip -= batch.num_rows
        return None

    def _took(self, rows: int) -> None:
        self._position += rows

    @property
    def position(self) -> int:
        return self._position

    @property
    def finished(self) -> bool:
        return self._finished

    def close(self) -> None:
        self._file.close()


def open_parquet(path: str, *, encoded: list[str] | None = None) -> Any:
    """A pyarrow ParquetFile, with its footer read. `encoded` columns stay as the dictionaries that the file has."""
    files = file_system_of(path)
    try:
        # On a server, the columns of a row group are fetched together.
        source = files.open(path) if files.is_remote else path
        return pq.ParquetFile(source, read_dictionary=encoded, pre_buffer=files.is_remote)
    except (OSError, pa.ArrowException) as error:
        raise StorageError(
            f"file {path!r} can't be read as Parquet",
            detail=str(error),
            hint="files must appear complete: write elsewhere, or under a name that starts with '.', then rename",
        ) from error


def _encoded_columns(schema: pa.Schema) -> list[str]:
    return [field.name for field in schema if pa.types.is_dictionary(field.type)]


def open_csv(
    path: str,
    schema: pa.Schema | None,
    *,
    compression: Compression = "none",
    on_invalid_row: Callable[[Any], str] | None = None,
    shape: CsvShape = CsvShape(),
) -> tuple[BinaryIO, Any]:
    """The file and a stream of its batches; without a schema the types are taken from the first megabyte.

    Without a header and without names, columns are called f0, f1, …

    `on_invalid_row`: what to do with a row that has too few or too many cells, "skip" or "error" (the default).
    """
    convert = pyarrow.csv.ConvertOptions()
    if schema is not None:
        convert = pyarrow.csv.ConvertOptions(
            column_types={field.name: field.type for field in schema}, include_columns=schema.names
        )
    # One thread: threads would outlive the reader, and the slots share the cores anyway.
    names = None if shape.columns is None else list(shape.columns)
    read = pyarrow.csv.ReadOptions(use_threads=False, column_names=names, autogenerate_column_names=names == [])
    try:
        file: BinaryIO = file_system_of(path).open(path)
    except OSError as error:
        raise StorageError(f"file {path!r} can't be read", detail=str(error)) from error
    if compression != "none":
        file = decompressed(file, compression, sys.maxsize)
    try:
        parse = pyarrow.csv.ParseOptions(delimiter=shape.delimiter, invalid_row_handler=on_invalid_row)
        return file, pyarrow.csv.open_csv(file, read_options=read, parse_options=parse, convert_options=convert)
    except (KeyError, OSError, pa.ArrowException) as error:
        file.close()
        raise table_unreadable(path, error, schema) from error


def table_unreadable(path: str, error: Exception, schema: pa.Schema | None) -> UserError:
    wanted = "" if schema is None else "; wanted: " + ", ".join(f"{field.name} {field.type}" for field in schema)
    return UserError(
        f"file {path!r} doesn't fit the schema",
        detail=f"{error}{wanted}",
        hint="all files must have the columns of the first one, or of schema=…",
    )

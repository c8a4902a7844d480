"""How is a CSV file read when some of its rows can't be?

Cells are read as bytes, which always works, and then become typed rows, as many as can. Rows with too few or too many
cells are told by Arrow's parser while it reads ahead. They belong to the row behind them: so each comes with one batch,
also when the file is read again from a position in the middle.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from cutwater.batches import Batch
from cutwater.connectors.bases.decoding import Place, RowDecoder
from cutwater.connectors.contract import Unreadable
from cutwater.connectors.file_compression import Compression
from cutwater.connectors.file_parts import FilePart
from cutwater.connectors.table_reader import CsvReader, CsvShape, open_csv, table_unreadable


class _Misshapen(NamedTuple):
    #: Rows of the right shape in front of it.
    rows_before: int
    unreadable: Unreadable


class TolerantCsvReader(CsvReader):
    """Position: the number of the next row of the right shape."""

    def __init__(
        self,
        part: FilePart,
        schema: pa.Schema,
        position: int | None,
        *,
        include_path: bool,
        compression: Compression = "none",
        shape: CsvShape = CsvShape(),  # noqa: B008 — a value
    ) -> None:
        self._misshapen: deque[_Misshapen] = deque()
        #: Of all that were found, also before the position: rows of the right shape in front of them.
        self._found_behind: list[int] = []
        self._unreadable: Sequence[Unreadable] = ()
        super().__init__(part, schema, position, include_path=include_path, compression=compression, shape=shape)
        self._decoder = RowDecoder(_TypedCells(self._columns), self._columns, tolerant=True)

    def _open(self) -> tuple[Any, Any]:
        file, typed = self._rows(None, lambda row: "skip")
        file.close()
        missing = [name for name in self._columns.names if name not in typed.schema.names]
        if missing:
            raise table_unreadable(self._part.path, KeyError(f"no column {missing}"), self._columns)
        cells = pa.schema([(name, pa.binary()) for name in typed.schema.names])
        return self._rows(cells, self._note_misshapen)

    def _rows(self, schema: pa.Schema | None, on_invalid_row: Callable[[Any], str]) -> tuple[Any, Any]:
        return open_csv(
            self._part.path,
            schema,
            compression=self._compression,
            on_invalid_row=on_invalid_row,
            shape=self._shape,
        )

    def _note_misshapen(self, row: Any) -> str:
        # Rows of the file count from 1, the header included.
        before = row.number - 1 - self._shape.header_rows - len(self._found_behind)
        self._found_behind.append(before)
        if before >= self._position:
            error = ValueError(f"{row.actual_columns} cells for {row.expected_columns} columns")
            self._misshapen.append(_Misshapen(before, Unreadable(row.text.encode(), f"row {row.number}", error)))
        return "skip"

    def read(self, limit: int, now_seconds: float) -> Batch | None:
        while self._batch is None or self._row >= self._batch.num_rows:
            self._row = 0
            self._batch = self._next_batch()
            if self._batch is None:
                self._unreadable = self._take_misshapen(None)
                return None
        cells = self._batch.slice(self._row, limit)
        place = Place(str, self._told_from(self._position), lambda index: _line(cells.slice(index, 1)))
        decoded = self._decoder.decode(cells, place)
        self._row += cells.num_rows
        self._took(cells.num_rows)
        self._unreadable = [*self._take_misshapen(self._position), *decoded.unreadable]
        return None if decoded.batch is None else self._conform(decoded.batch)

    def _told_from(self, first: int) -> Callable[[int], str]:
        """Rows by their number in the file, which counts from 1, the header included."""
        first_row = first + 1 + self._shape.header_rows

        def told(index: int) -> str:
            return f"row {first_row + index + bisect_right(self._found_behind, first + index)}"

        return told

    def take_unreadable(self) -> Sequence[Unreadable]:
        unreadable, self._unreadable = self._unreadable, ()
        return unreadable

    def _take_misshapen(self, before: int | None) -> list[Unreadable]:
        """In front of this row; None: all there are."""
        taken = []
        while self._misshapen and (before is None or self._misshapen[0].rows_before < before):
            taken.append(self._misshapen.popleft().unreadable)
        return taken


class _TypedCells:
    """Rows of cells as bytes become rows of a schema, by the rules of the CSV reader: it reads them once more."""

    def __init__(self, columns: pa.Schema) -> None:
        self._columns = columns
        self._convert = pyarrow.csv.ConvertOptions(column_types={field.name: field.type for field in columns})

    def __call__(self, cells: pa.RecordBatch) -> pa.RecordBatch:
        text = _line(cells.select(self._columns.names))
        read = pyarrow.csv.ReadOptions(
            use_threads=False, column_names=self._columns.names, block_size=max(len(text) + 1, 1 << 10)
        )
        parse = pyarrow.csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False)
        table = pyarrow.csv.read_csv(pa.BufferReader(text), read, parse, self._convert)
        return table.combine_chunks().to_batches()[0].select(self._columns.names)


def _line(cells: pa.RecordBatch) -> bytes:
    """The rows as CSV, every cell in quotes."""
    quoted = [pc.replace_substring(column, pattern=b'"', replacement=b'""') for column in cells.columns]
    rows = pc.binary_join_element_wise(*quoted, pa.scalar(b'","', pa.binary())).to_pylist()
    return b"\n".join(b'"' + row + b'"' for row in rows)

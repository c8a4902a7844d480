"""How do records look as a table?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from cutwater.batches import TIME_COLUMN
from cutwater.connectors.column_formats import as_columns

if TYPE_CHECKING:
    import pandas as pd

_CELL_WIDTH = 40


def text_table(records: Sequence[Any], schema: pa.Schema | None = None) -> str:
    """Lines as PySpark's `show` draws them; long cells are cut."""
    rows, names = _rows_of(records, schema)
    cells = [[_cell(row.get(name)) for name in names] for row in rows]
    widths = [max(len(str(name)), *(len(row[index]) for row in cells), 0) for index, name in enumerate(names)]
    rule = "+" + "+".join("-" * width for width in widths) + "+"

    def line(values: Sequence[str]) -> str:
        return "|" + "|".join(value.rjust(width) for value, width in zip(values, widths, strict=True)) + "|"

    return "\n".join([rule, line([str(name) for name in names]), rule, *map(line, cells), rule])


def data_frame(records: Sequence[Any], schema: pa.Schema | None = None) -> pd.DataFrame:
    """A pandas DataFrame; of a typed stream with the types of its columns."""
    import pandas

    if schema is None:
        rows, names = _rows_of(records, None)
        return pandas.DataFrame(rows, columns=names if names != ["value"] or rows else None)
    schema = _without_times(schema)
    columns = list(zip(*records, strict=True)) if records else [()] * len(schema)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema).to_pandas()


def _rows_of(records: Sequence[Any], schema: pa.Schema | None) -> tuple[list[dict[str, Any]], list[str]]:
    """Each record by column, and all columns in the order in which they come."""
    if schema is not None:
        known = list(_without_times(schema).names)
        return [dict(zip(known, record, strict=True)) for record in records], known
    rows = [as_columns(record) for record in records]
    return rows, list(dict.fromkeys(name for row in rows for name in row)) or ["value"]


def _without_times(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field for field in schema if field.name != TIME_COLUMN])


def _cell(value: Any) -> str:
    text = "NULL" if value is None else str(value).replace("\n", "\\n")
    return text if len(text) <= _CELL_WIDTH else f"{text[: _CELL_WIDTH - 1]}…"

"""What does a Python data source of PySpark look like to us?

Spark has grown signatures over its versions (`latestOffset` with and without a limit), two kinds of stream readers and
two of stream writers; behind these there is one of each. They are pickled on their way to the slots.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow as pa

from cutwater.deploy.schemas import arrow_schema, spark_schema
from cutwater.deploy.session import installed_version
from cutwater.deploy.spark_versions import DATA_SOURCES, READ_LIMITS, refuse_without
from cutwater.errors import ConfigurationError, UserError

_ROWS_PER_BATCH = 1024


@dataclass(frozen=True, slots=True)
class MadeReader:
    reader: Any
    schema: pa.Schema


def stream_reader(data_source: type, options: dict[str, str], schema: pa.Schema | None) -> MadeReader:
    """An `OffsetReader`, and the columns that it reads."""
    refuse_without(DATA_SOURCES, installed_version())
    from pyspark.errors import PySparkNotImplementedError

    made = _made(data_source, options)
    columns, struct = _columns_of(made, schema)
    try:
        return MadeReader(PlannedReader(made.streamReader(struct), columns), columns)
    except PySparkNotImplementedError:
        pass
    try:
        return MadeReader(SimpleReader(made.simpleStreamReader(struct), columns), columns)
    except PySparkNotImplementedError:
        raise ConfigurationError(
            f"{data_source.__name__} can't be read as a stream", hint="it needs streamReader or simpleStreamReader"
        ) from None


def stream_writer(data_source: type, options: dict[str, str], schema: pa.Schema) -> Any:
    """An `EpochMessages`."""
    refuse_without(DATA_SOURCES, installed_version())
    from pyspark.errors import PySparkNotImplementedError

    _, struct = _columns_of(None, schema)
    try:
        writer = _made(data_source, options).streamWriter(struct, False)
    except PySparkNotImplementedError:
        raise ConfigurationError(
            f"{data_source.__name__} can't be written as a stream", hint="it needs streamWriter"
        ) from None
    return StreamWriter(writer, takes_arrow=_takes_arrow(writer))


class PlannedReader:
    """An `OffsetReader` over a `DataSourceStreamReader`."""

    def __init__(self, reader: Any, schema: pa.Schema) -> None:
        self._reader = reader
        self._schema = schema
        self._takes_limit = _takes_limit(reader)

    def initial_offset(self) -> dict[str, Any]:
        return dict(self._reader.initialOffset())

    def latest_offset(self, start: dict[str, Any]) -> dict[str, Any]:
        limits = (start, self._reader.getDefaultReadLimit()) if self._takes_limit else ()
        return dict(self._reader.latestOffset(*limits))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[Any]:
        return list(self._reader.partitions(start, end))

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        return _batches(self._reader.read(partition), self._schema)

    def commit(self, end: dict[str, Any]) -> None:
        self._reader.commit(end)

    def stop(self) -> None:
        self._reader.stop()


class SimpleReader:
    """An `OffsetReader` over a `SimpleDataSourceStreamReader`: one partition a range, which a slot reads again."""

    def __init__(self, reader: Any, schema: pa.Schema) -> None:
        self._reader = reader
        self._schema = schema

    def initial_offset(self) -> dict[str, Any]:
        return dict(self._reader.initialOffset())

    def latest_offset(self, start: dict[str, Any]) -> dict[str, Any]:
        _, end = self._reader.read(start)
        return dict(end)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[Any]:
        return [(start, end)]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        return _batches(self._reader.readBetweenOffsets(*partition), self._schema)

    def commit(self, end: dict[str, Any]) -> None:
        self._reader.commit(end)

    def stop(self) -> None:
        """Such a reader has nothing to end."""


class StreamWriter:
    """An `EpochMessages` over a `DataSourceStreamWriter`."""

    def __init__(self, writer: Any, *, takes_arrow: bool) -> None:
        self._writer = writer
        self._takes_arrow = takes_arrow

    def write(self, batches: Iterator[pa.RecordBatch]) -> Any:
        return self._writer.write(batches if self._takes_arrow else _rows(batches))

    def commit(self, messages: list[Any], epoch: int) -> None:
        self._writer.commit(messages, epoch)


def _takes_limit(reader: Any) -> bool:
    """Whether `latestOffset` is called with what was read last, and a limit. Older versions of Spark have no limits."""
    parameters = inspect.signature(reader.latestOffset).parameters.values()
    if not hasattr(reader, "getDefaultReadLimit"):
        if any(parameter.default is parameter.empty for parameter in parameters):
            refuse_without(READ_LIMITS, installed_version())
        return False
    return bool(parameters)


def _takes_arrow(writer: Any) -> bool:
    from pyspark.sql import datasource

    # Spark 4.0 knows writers of rows only.
    kind = getattr(datasource, "DataSourceStreamArrowWriter", None)
    return kind is not None and isinstance(writer, kind)


def _made(data_source: type, options: dict[str, str]) -> Any:
    from pyspark.sql.datasource import CaseInsensitiveDict

    return data_source(CaseInsensitiveDict(options))


def _columns_of(made: Any, schema: pa.Schema | None) -> tuple[pa.Schema, Any]:
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    if schema is not None:
        return schema, spark_schema(schema)
    declared = made.schema()
    struct: Any
    try:
        struct = StructType.fromDDL(declared) if isinstance(declared, str) else declared
    except (AssertionError, PySparkException) as error:
        raise ConfigurationError(
            f"the schema {declared!r} of {type(made).__name__} can't be understood",
            detail=str(error) or "only a SparkSession can, and none is active",
            hint="create the session before, or give schema=pa.schema([…])",
        ) from error
    return arrow_schema(struct), struct


def _batches(found: Iterable[Any], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Tuples, rows or record batches as record batches of the schema."""
    rest = iter(found)
    while first := list(islice(rest, 1)):
        if isinstance(first[0], pa.RecordBatch):
            yield first[0].select(schema.names).cast(schema)
        else:
            # A data source gives rows or batches, never both.
            yield _from_rows([*first, *islice(rest, _ROWS_PER_BATCH - 1)], schema)


def _from_rows(rows: list[Any], schema: pa.Schema) -> pa.RecordBatch:
    try:
        columns = list(zip(*rows, strict=True))
        arrays = [pa.array(map(_plain, column), field.type) for column, field in zip(columns, schema, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)
    except (ValueError, TypeError, pa.ArrowException) as error:
        raise UserError(
            "rows of a data source don't fit its schema",
            detail=f"{error}; the columns are {', '.join(f'{field.name} {field.type}' for field in schema)}",
        ) from error


def _plain(value: Any) -> Any:
    from pyspark.sql import Row

    return value.asDict(recursive=True) if isinstance(value, Row) else value


def _rows(batches: Iterator[pa.RecordBatch]) -> Iterator[Any]:
    from pyspark.sql import Row

    for batch in batches:
        make = Row(*batch.schema.names)
        for row in batch.to_pylist():
            yield make(*row.values())

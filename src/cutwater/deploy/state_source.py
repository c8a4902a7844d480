"""State is a table: snapshots as a data source of Spark.

    spark.read.format("cutwater").option("snapshot", path).option("operator", uid).option("state", name).load()

    rows.write.format("cutwater").option("snapshot", new_path).option("base", path)
        .option("operator", uid).option("state", name).mode("append").save()

Reads any snapshot of any backend, a task's part in each partition. Writing makes a savepoint: a new one, a changed copy
of `base`, or what is at the path already with this state changed. Spark finds the source by itself wherever the package
is installed (see `pyspark_cutwater`).

A snapshot may come from a stranger: nothing in it is unpickled but plain data, unless `.option("trust", "true")` says
that its author may run code here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import msgspec
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from cutwater.canonical import StateKind
from cutwater.deploy.schemas import arrow_schema, spark_schema
from cutwater.errors import ConfigurationError
from cutwater.inspection.building import SavepointBuilder, savepoint_builder
from cutwater.inspection.rows import raw, read, readable
from cutwater.inspection.snapshots import StatePart, open_snapshot
from cutwater.snapshots.format import StateTable

_KINDS = ("value", "list", "map", "reducing", "aggregating", "timer", "columns")
_encode = msgspec.msgpack.Encoder().encode
_decode_part = msgspec.msgpack.Decoder(StatePart).decode
_decode_tables = msgspec.msgpack.Decoder(list[StateTable]).decode


class StateSource(DataSource):
    """`format("cutwater")`. Options: snapshot, operator, state; raw="true" gives pickles beside their texts.

    trust="true" unpickles values of any class, which runs whatever code the author of the snapshot put there.
    """

    @classmethod
    def name(cls) -> str:
        return "cutwater"

    def schema(self) -> StructType:
        found: pa.Schema | None = None
        for part in self._parts():
            batch = next(self._batches(part), None)
            if batch is not None:
                found = batch.schema if found is None else _common_schema(found, batch.schema)
        if found is None:
            raise ConfigurationError("the state has no rows, so its columns are not known", hint="give .schema(…)")
        return cast(StructType, spark_schema(found))

    def reader(self, schema: StructType) -> DataSourceReader:
        return _StateReader([_encode(part) for part in self._parts()], schema, raw=self._raw, trust=self._trust)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        return _StateWriter(dict(self.options))

    @property
    def _raw(self) -> bool:
        return _is_true(self.options, "raw")

    @property
    def _trust(self) -> bool:
        return _is_true(self.options, "trust")

    def _parts(self) -> list[StatePart]:
        path, operator, state = (_option(self.options, name) for name in ("snapshot", "operator", "state"))
        return open_snapshot(path).parts_of(operator, state)

    def _batches(self, part: StatePart) -> Iterator[pa.RecordBatch]:
        return map(raw if self._raw else readable, read(part, trust=self._trust))


class _StateReader(DataSourceReader):
    def __init__(self, parts: list[bytes], schema: StructType, *, raw: bool, trust: bool) -> None:
        self._parts = parts
        self._schema = schema
        self._raw = raw
        self._trust = trust

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(part) for part in self._parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        schema = arrow_schema(self._schema)
        shown = raw if self._raw else readable
        for batch in read(_decode_part(partition.value), trust=self._trust):
            yield _conform(shown(batch), schema)


@dataclass
class _Written(WriterCommitMessage):
    tables: bytes


class _StateWriter(DataSourceArrowWriter):
    """Made in the driver, used in the tasks, and again in the driver at the end."""

    def __init__(self, options: dict[str, str]) -> None:
        self._options = options
        self._new = self._builder().new_state(
            _option(options, "operator"),
            _option(options, "state"),
            kind=_kind(options.get("kind")),
            max_parallelism=_whole_number(options.get("max_parallelism"), "max_parallelism"),
            trust=_is_true(options, "trust"),
        )

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = TaskContext.get()
        # Another attempt of the task writes other files: only those of the one that Spark takes are named.
        number = 0 if context is None else context.taskAttemptId()
        return _Written(_encode(self._new.write_part(number, iterator)))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        tables = [table for message in messages for table in _decode_tables(cast(_Written, message).tables)]
        self._builder().publish(self._new, tables)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """What was written is named by no manifest."""

    def _builder(self) -> SavepointBuilder:
        drop = [uid.strip() for uid in self._options.get("drop", "").split(",") if uid.strip()]
        return savepoint_builder(_option(self._options, "snapshot"), base=self._options.get("base"), drop=drop)


def _option(options: Any, name: str) -> str:
    value = options.get(name)
    if not value:
        raise ConfigurationError(
            f'the data source "cutwater" needs the option "{name}"', hint=f'add .option("{name}", …)'
        )
    return str(value)


def _is_true(options: Any, name: str) -> bool:
    return str(options.get(name, "false")).lower() == "true"


def _kind(value: str | None) -> StateKind | None:
    if value is not None and value not in _KINDS:
        raise ConfigurationError(f"there is no state of kind {value!r}", hint=f"choose one of {', '.join(_KINDS)}")
    return cast(StateKind | None, value)


def _whole_number(value: str | None, name: str) -> int | None:
    if value is None:
        return None
    if not value.isdigit() or int(value) < 1:
        raise ConfigurationError(f"{name} must be a whole number of 1 or more, not {value!r}")
    return int(value)


def _common_schema(left: pa.Schema, right: pa.Schema) -> pa.Schema:
    """Where the types differ: text."""
    names = [*left.names, *(name for name in right.names if name not in left.names)]
    fields = []
    for name in names:
        kinds = {schema.field(name).type for schema in (left, right) if name in schema.names}
        kinds -= {pa.null()} if len(kinds) > 1 else set()
        fields.append(pa.field(name, kinds.pop() if len(kinds) == 1 else pa.string()))
    return pa.schema(fields)


def _conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = []
    for field in schema:
        if field.name not in batch.schema.names:
            columns.append(pa.nulls(batch.num_rows, field.type))
        else:
            columns.append(_as_type(batch.column(field.name), field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _as_type(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if column.type == kind:
        return column
    try:
        return column.cast(kind)
    except pa.ArrowException:
        if not pa.types.is_string(kind):
            raise
        return pa.array([None if value is None else str(value) for value in column.to_pylist()], kind)

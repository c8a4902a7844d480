"""Which records of a batch go to which folder?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from cutwater.batches import Batch, ObjectBatch, Times, comparable_values, decoded, times_of, without_time_column
from cutwater.connectors.column_formats import as_columns
from cutwater.connectors.hive_folders import folder_name
from cutwater.connectors.partitions import TimePartition, name_of
from cutwater.errors import ConfigurationError, SerializationError


class Partitioning:
    """Divides batches by `partition_by`. Columns that name a folder are taken out: a reader has them from its name."""

    def __init__(self, partitions: Sequence[str | TimePartition], wall_ms: Callable[[], int]) -> None:
        self._partitions = partitions
        self._columns = [partition for partition in partitions if isinstance(partition, str)]
        self._wall_ms = wall_ms

    def divided(self, batch: Batch, times: Times | None) -> list[tuple[str, Batch]]:
        """(folder, records in their order), each folder once or twice; the folder is "" without partitions."""
        if not self._partitions:
            return [("", batch)]
        if isinstance(batch, ObjectBatch):
            return self._divided_values(batch.values, times)
        return self._divided_columns(batch, times)

    def _divided_columns(self, batch: pa.RecordBatch, times: Times | None) -> list[tuple[str, Batch]]:
        found = [self._of_columns(partition, batch, times) for partition in self._partitions]
        codes = np.stack([code for code, _ in found])
        groups, group_of = np.unique(codes, axis=1, return_inverse=True)
        rest = self._without_partitions(batch)
        names = ["/".join(names[code] for (_, names), code in zip(found, group, strict=True)) for group in groups.T]
        if len(names) == 1:
            return [(names[0], rest)]
        order = np.argsort(group_of.reshape(-1), kind="stable")
        bounds = np.cumsum(np.bincount(group_of.reshape(-1)))[:-1]
        return [(name, rest.take(pa.array(rows))) for name, rows in zip(names, np.split(order, bounds), strict=True)]

    def _of_columns(
        self, partition: str | TimePartition, batch: pa.RecordBatch, times: Times | None
    ) -> tuple[Any, list[str]]:
        """For each row the index of its folder's name, and the names."""
        if isinstance(partition, TimePartition) and partition.column is None:
            hours, codes = np.unique(self._times(partition, times, batch.num_rows) // 3_600_000, return_inverse=True)
            return codes, [folder_name(partition.name, partition.of_ms(int(hour) * 3_600_000)) for hour in hours]
        column = partition if isinstance(partition, str) else partition.column
        assert column is not None
        if column not in batch.schema.names:
            raise _no_column(column, f"the columns are {batch.schema.names}")
        encoded = decoded(batch.column(column)).dictionary_encode(null_encoding="encode")
        return encoded.indices.to_numpy(), [_name(partition, value) for value in comparable_values(encoded.dictionary)]

    def _without_partitions(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        rest = batch.drop_columns(self._columns)
        if not rest.num_columns:
            raise SerializationError(
                "no column is left for the files",
                detail=f"all are in the names of folders: {self._columns}",
                hint="leave one out of partition_by",
            )
        return rest

    def _divided_values(self, values: list[Any], times: Times | None) -> list[tuple[str, Batch]]:
        moments = [
            self._times(partition, times, len(values))
            if isinstance(partition, TimePartition) and partition.column is None
            else None
            for partition in self._partitions
        ]
        found: dict[str, list[Any]] = {}
        for index, value in enumerate(values):
            row = _row(value) if self._needs_rows else {}
            names = [
                self._of_row(partition, row) if moment is None else _moment(partition, int(moment[index]))
                for partition, moment in zip(self._partitions, moments, strict=True)
            ]
            rest = {name: item for name, item in row.items() if name not in self._columns} if self._columns else value
            found.setdefault("/".join(names), []).append(rest)
        return [(folder, ObjectBatch(rows)) for folder, rows in found.items()]

    @property
    def _needs_rows(self) -> bool:
        return any(isinstance(partition, str) or partition.column is not None for partition in self._partitions)

    @staticmethod
    def _of_row(partition: str | TimePartition, row: dict[str, Any]) -> str:
        column = partition if isinstance(partition, str) else partition.column
        assert column is not None
        return _name(partition, row.get(column))

    def _times(self, partition: TimePartition, times: Times | None, rows: int) -> Times:
        if partition.time == "processing":
            return np.full(rows, self._wall_ms(), np.int64)
        if times is None:
            raise ConfigurationError(
                f"records have no event time for the folder {partition.name!r}",
                hint="assign_timestamps() before the sink, or choose: "
                f'cw.partitions.{partition.unit}("column") or cw.partitions.{partition.unit}(time="processing")',
            )
        return times


def separated(batch: Batch) -> tuple[Batch, Times | None]:
    """The records as the user knows them, and their event times."""
    times = times_of(batch)
    return (batch, times) if isinstance(batch, ObjectBatch) else (without_time_column(batch), times)


def _row(value: Any) -> dict[str, Any]:
    row = as_columns(value)
    if list(row) == ["value"] and not isinstance(value, dict):
        raise _no_column("value", f"a record is {str(value)[:80]!r}, which has no columns")
    return row


def _name(partition: str | TimePartition, value: Any) -> str:
    if isinstance(partition, str):
        return folder_name(partition, value)
    try:
        return folder_name(partition.name, partition.of(value))
    except TypeError as error:
        raise SerializationError(f"column {partition.column!r} has no times", detail=str(error)) from error


def _moment(partition: str | TimePartition, milliseconds: int) -> str:
    assert isinstance(partition, TimePartition)
    return folder_name(name_of(partition), partition.of_ms(milliseconds))


def _no_column(column: str, detail: str) -> SerializationError:
    return SerializationError(f"records have no column {column!r} for partition_by", detail=detail)

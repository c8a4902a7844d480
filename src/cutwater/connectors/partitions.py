"""In which folder does a record lie? `partition_by="country"`, `cw.partitions.day()`

Folders are named as Hive does it, `day=2026-11-17/country=de`, which Spark, DuckDB, Arrow and Trino read as columns of
a table. So a column that names the folder is not in the files. Moments are in UTC.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, Literal

from cutwater.connectors.settings import check_choice, check_name
from cutwater.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class TimePartition:
    """A folder for each day, or for each hour of a day (00 to 23)."""

    unit: Literal["day", "hour"]
    name: str
    #: The column with the time; None: event time or processing time.
    column: str | None
    time: Literal["event", "processing"]

    def of_ms(self, milliseconds: int) -> str:
        return self._written(datetime.fromtimestamp(milliseconds // 1000, UTC))

    def of(self, value: Any) -> str | None:
        """Of a value of the column. `TypeError`: it is no time."""
        match value:
            case None:
                return None
            case datetime():
                return self._written(value.astimezone(UTC) if value.tzinfo else value)
            case date() if self.unit == "day":
                return value.isoformat()
        raise TypeError(f"{value!r} is no {'date or ' if self.unit == 'day' else ''}datetime")

    def _written(self, moment: datetime) -> str:
        return moment.date().isoformat() if self.unit == "day" else f"{moment.hour:02d}"


PartitionBy = str | TimePartition | Sequence[str | TimePartition]


def day(
    column: str | None = None, *, time: Literal["event", "processing"] = "event", name: str = "day"
) -> TimePartition:
    """A folder for each day in UTC: `day=2026-11-17`.

    The day is that of a column with dates or datetimes, which stays in the files; without one, of the record's event
    time, or of the moment at which it is written (`time="processing"`: a record that is written again after a failure
    may go to another day than it would have).
    """
    return _time_partition("day", column, time, name)


def hour(
    column: str | None = None, *, time: Literal["event", "processing"] = "event", name: str = "hour"
) -> TimePartition:
    """A folder for each hour of the day, 00 to 23: `partition_by=[cw.partitions.day(), cw.partitions.hour()]`."""
    return _time_partition("hour", column, time, name)


def _time_partition(unit: Any, column: str | None, time: Any, name: str) -> TimePartition:
    check_choice("time", time, ("event", "processing"))
    check_name("name", name)
    if column is not None:
        check_name("column", column)
    return TimePartition(unit, name, column, time)


def partitions_of(option: PartitionBy | None) -> tuple[str | TimePartition, ...]:
    """As the user gave them, checked."""
    if option is None:
        return ()
    given = (option,) if isinstance(option, str | TimePartition) else tuple(option)
    for partition in given:
        if not isinstance(partition, str | TimePartition) or not partition:
            raise ConfigurationError(
                "partition_by must name columns",
                detail=f"it has {partition!r}",
                hint='e.g. partition_by="country", or partition_by=[cw.partitions.day(), "country"]',
            )
    names = [name_of(partition) for partition in given]
    if len(set(names)) != len(names):
        raise ConfigurationError("partition_by names a folder twice", detail=f"the folders are {names}")
    hidden = [name for name in names if name.startswith((".", "_"))]
    if hidden:
        raise ConfigurationError(
            f"folders of {hidden[0]!r} would be hidden", detail="readers pass over names that begin with . or _"
        )
    return given


def name_of(partition: str | TimePartition) -> str:
    return partition if isinstance(partition, str) else partition.name

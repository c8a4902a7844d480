"""What is the key of a record?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter, itemgetter
from typing import Any

from cutwater.batches import Batch, ObjectBatch, comparable_values, rows_of


@dataclass(frozen=True, slots=True)
class KeySelector:
    """A function of the record, or the names of one or more fields; exactly one of the two is set."""

    function: Callable[[Any], Any] | None = None
    columns: tuple[str, ...] = ()

    def keys_of(self, batch: Batch) -> list[Any]:
        """One key per record, in order."""
        if self.function is not None:
            function = self.function
            return [function(row) for row in rows_of(batch)]
        if isinstance(batch, ObjectBatch):
            return [self._fields_of(value) for value in batch.values]
        columns = [comparable_values(batch.column(name)) for name in self.columns]
        return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))

    def key_of(self, record: Any) -> Any:
        """That of one record, as a row function sees it."""
        return self._fields_of(record) if self.function is None else self.function(record)

    def _fields_of(self, value: Any) -> Any:
        if isinstance(value, dict):
            fields = tuple(value[name] for name in self.columns)
            return fields[0] if len(fields) == 1 else fields
        return attrgetter(*self.columns)(value)

    @property
    def names(self) -> tuple[str, ...]:
        """What the key is called in a result: its columns, or `key`."""
        return self.columns or ("key",)

    def describe(self) -> str:
        if self.columns:
            return ", ".join(self.columns)
        if isinstance(self.function, itemgetter):
            return repr(self.function).removeprefix("operator.itemgetter")
        name: str = getattr(self.function, "__name__", "function")
        return "function" if name == "<lambda>" else name

"""How is one aggregated value per key kept, updated and read?

A value column is an array by slot, with a byte for each slot that says whether it has had a value. Four kinds suffice:
count, sum, min, max; a mean is a sum and a count of the same values.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa

from cutwater.errors import UserError
from cutwater.state.columnar import value_kernels
from cutwater.state.columnar.buffers import (
    ALL_VALID,
    Bytes,
    Codes,
    Integers,
    floats_of,
    integers_of,
    is_whole,
    validity_of,
    whole_array,
)

_SLOTS_MIN = 1024
_WHOLE_LIMITS = np.array([-(2**63), 2**63 - 1], dtype=np.int64)
_FLOAT_LIMITS = np.array([-np.inf, np.inf])

Kind = Literal["count", "sum", "min", "max"]


def can_be_aggregated(kind: pa.DataType, aggregate: Kind) -> bool:
    """A column of this type can be summed, or compared, without Python."""
    if pa.types.is_floating(kind) and not pa.types.is_float16(kind):
        return True
    if aggregate == "sum":
        return bool(pa.types.is_integer(kind) and not pa.types.is_uint64(kind))
    return is_whole(kind) and not pa.types.is_boolean(kind)


class ValueColumn(ABC):
    """The values of one aggregate. Used by the loop's thread only."""

    kind: ClassVar[Kind]

    def __init__(self, output: pa.DataType) -> None:
        self.output = output
        """The type of the results."""

    @abstractmethod
    def make_room(self, slots: int) -> None:
        """For this many slots; new ones have no value."""

    @abstractmethod
    def add(self, slots: Codes, inputs: pa.Array | None) -> None:
        """Updates the slot of each row."""

    @abstractmethod
    def run(self, slots: Codes, inputs: pa.Array | None) -> pa.Array:
        """Updates the slot of each row; the value after each."""

    @abstractmethod
    def results(self, slots: Codes | slice) -> pa.Array:
        """The values of these slots, copied."""


class CountColumn(ValueColumn):
    """How many rows; or, of counts of rows (which are never null), their sum."""

    kind = "count"

    def __init__(self) -> None:
        super().__init__(pa.int64())
        self._values: Integers = np.zeros(_SLOTS_MIN, dtype=np.int64)
        self._seen: Bytes = np.zeros(0, dtype=np.uint8)

    def make_room(self, slots: int) -> None:
        self._values = zero_extended(self._values, slots)

    def add(self, slots: Codes, inputs: pa.Array | None) -> None:
        if inputs is None:
            value_kernels.add_counts(slots, self._values)
        else:
            self._seen = zero_extended(self._seen, len(self._values))
            value_kernels.add_sums(slots, integers_of(inputs), ALL_VALID, self._values, self._seen, _WHOLE_LIMITS)

    def run(self, slots: Codes, inputs: pa.Array | None) -> pa.Array:
        results: Integers = np.empty(len(slots), dtype=np.int64)
        if inputs is None:
            value_kernels.run_counts(slots, self._values, results)
        else:
            self._seen = zero_extended(self._seen, len(self._values))
            known: Bytes = np.empty(len(slots), dtype=np.uint8)
            numbers = integers_of(inputs)
            value_kernels.run_sums(slots, numbers, ALL_VALID, self._values, self._seen, _WHOLE_LIMITS, results, known)
        return pa.array(results)

    def results(self, slots: Codes | slice) -> pa.Array:
        return pa.array(self._values[slots].copy() if isinstance(slots, slice) else self._values[slots])


class _NumberColumn(ValueColumn):
    """Values with a mark for each slot that has had one."""

    def __init__(self, output: pa.DataType) -> None:
        super().__init__(output)
        self._is_float = bool(pa.types.is_floating(output))
        self._values: Any = np.zeros(_SLOTS_MIN, dtype=np.float64 if self._is_float else np.int64)
        self._seen: Bytes = np.zeros(_SLOTS_MIN, dtype=np.uint8)

    def make_room(self, slots: int) -> None:
        self._values = zero_extended(self._values, slots)
        self._seen = zero_extended(self._seen, slots)

    def results(self, slots: Codes | slice) -> pa.Array:
        # An index makes a copy, a slice a view of what goes on changing.
        return self._array(np.array(self._values[slots]), np.array(self._seen[slots]))

    def _numbers(self, inputs: pa.Array) -> tuple[Any, Bytes]:
        valid = validity_of(inputs)
        known = inputs if not len(valid) else inputs.fill_null(False if pa.types.is_boolean(inputs.type) else 0)
        return (floats_of(known) if self._is_float else integers_of(known)), valid

    def _array(self, values: Any, seen: Bytes) -> pa.Array:
        nulls = None if seen.all() else seen == 0
        if self._is_float:
            array = pa.array(values, mask=nulls)
            return array if self.output == pa.float64() else array.cast(self.output)
        return whole_array(self.output, values, nulls=nulls)

    def _blank(self, rows: int) -> tuple[Any, Bytes]:
        return np.empty(rows, dtype=self._values.dtype), np.empty(rows, dtype=np.uint8)


class SumColumn(_NumberColumn):
    """The sum of the values that are there."""

    kind = "sum"

    def __init__(self, inputs: pa.DataType) -> None:
        super().__init__(pa.float64() if pa.types.is_floating(inputs) else pa.int64())
        self._limits = _FLOAT_LIMITS if self._is_float else _WHOLE_LIMITS

    def add(self, slots: Codes, inputs: pa.Array | None) -> None:
        assert inputs is not None
        numbers, valid = self._numbers(inputs)
        row = value_kernels.add_sums(slots, numbers, valid, self._values, self._seen, self._limits)
        _check_overflow(row, inputs)

    def run(self, slots: Codes, inputs: pa.Array | None) -> pa.Array:
        assert inputs is not None
        results, known = self._blank(len(slots))
        numbers, valid = self._numbers(inputs)
        row = value_kernels.run_sums(slots, numbers, valid, self._values, self._seen, self._limits, results, known)
        _check_overflow(row, inputs)
        return self._array(results, known)


class ExtremeColumn(_NumberColumn):
    """The smallest or largest of the values that are there; a NaN is larger than any number."""

    def __init__(self, inputs: pa.DataType, *, largest: bool) -> None:
        super().__init__(inputs)
        self._largest = largest

    def add(self, slots: Codes, inputs: pa.Array | None) -> None:
        assert inputs is not None
        value_kernels.add_extremes(slots, *self._numbers(inputs), self._values, self._seen, self._largest)

    def run(self, slots: Codes, inputs: pa.Array | None) -> pa.Array:
        assert inputs is not None
        results, known = self._blank(len(slots))
        numbers, valid = self._numbers(inputs)
        value_kernels.run_extremes(slots, numbers, valid, self._values, self._seen, self._largest, results, known)
        return self._array(results, known)


def value_column(kind: Kind, inputs: pa.DataType | None) -> ValueColumn:
    """An empty column for this aggregate of a column of this type."""
    if kind == "count":
        return CountColumn()
    assert inputs is not None
    if kind == "sum":
        return SumColumn(inputs)
    return ExtremeColumn(inputs, largest=kind == "max")


def zero_extended(array: Any, wanted: int) -> Any:
    """The array, or a larger one with zeros behind the old values."""
    if wanted <= len(array):
        return array
    size = max(len(array), 1)
    while size < wanted:
        size *= 2
    larger = np.zeros(size, dtype=array.dtype)
    larger[: len(array)] = array
    return larger


def _check_overflow(row: int, inputs: pa.Array) -> None:
    if row >= 0:
        raise UserError(
            "a sum of whole numbers has become too large for 64 bits",
            detail=f"when {inputs[row].as_py()} was added",
            hint='sum floats instead: with_columns(value=cw.col("value").cast("float64"))',
        )

"""Which of several expressions holds for a row?

Both branches are computed on all rows, which is the fastest; one that fails there is computed on the rows that chose
it. So `when(n != 0).then(100 // n).otherwise(0)` never divides by zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from cutwater.columns import values
from cutwater.columns.expressions import Column, as_column
from cutwater.columns.failures import EvaluationFailed


def when(condition: Any) -> When:
    """`when(a > 1).then("many").when(a == 1).then("one").otherwise("none")`; null counts as false."""
    return When((), as_column(condition))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class When:
    """A condition that waits for its `then`."""

    earlier: tuple[tuple[Column, Column], ...]
    condition: Column
    unfinished: ClassVar = "go on with .then(…).otherwise(…)"

    def then(self, value: Any) -> Then:
        """What holds where the condition is true; None for null."""
        return Then((*self.earlier, (self.condition, as_column(value))))

    def __repr__(self) -> str:
        return f"{_written(self.earlier)}when({self.condition.text})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Then:
    """Conditions that wait for the rest."""

    branches: tuple[tuple[Column, Column], ...]
    unfinished: ClassVar = "end it with .otherwise(…); .otherwise(None) gives null"

    def when(self, condition: Any) -> When:
        """Asked where no condition before was true."""
        return When(self.branches, as_column(condition))

    def otherwise(self, value: Any) -> Column:
        """What holds everywhere else; None for null."""
        case = as_column(value)
        for condition, chosen in reversed(self.branches):
            case = Case(condition, chosen, case)
        return case

    def __repr__(self) -> str:
        return _written(self.branches).removesuffix(".")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Case(Column):
    """One condition and its two branches; a further condition is a case in the second."""

    condition: Column
    chosen: Column
    other: Column

    def compute(self, batch: pa.RecordBatch) -> Any:
        condition = self.condition.compute(batch)
        try:
            condition = values.is_true(condition)
        except Exception as error:
            raise EvaluationFailed(self.condition.text, error) from error
        chosen = _branch(self.chosen, batch, condition, holds=True)
        other = _branch(self.other, batch, condition, holds=False)
        try:
            return values.choose(condition, chosen, other)
        except Exception as error:
            raise EvaluationFailed(self.text, error) from error

    @property
    def columns(self) -> frozenset[str]:
        return self.condition.columns | self.chosen.columns | self.other.columns

    @property
    def text(self) -> str:
        branches, rest = [(self.condition, self.chosen)], self.other
        while isinstance(rest, Case):
            branches.append((rest.condition, rest.chosen))
            rest = rest.other
        return f"{_written(tuple(branches))}otherwise({rest.text})"


def _branch(expression: Column, batch: pa.RecordBatch, condition: Any, *, holds: bool) -> Any:
    """The expression on all rows or, if it fails there, on those where the condition holds (or not); null elsewhere."""
    try:
        return expression.compute(batch)
    except EvaluationFailed:
        chosen = _flags_of(condition, batch.num_rows) == holds
    needed = expression.columns
    rows = batch.select([name for name in batch.schema.names if name in needed]) if needed else batch
    result = expression.compute(rows.filter(pa.array(chosen)))
    if isinstance(result, pa.Scalar):
        return result
    return result.take(pa.array(np.cumsum(chosen) - 1, mask=~chosen))


def _flags_of(condition: Any, rows: int) -> Any:
    if isinstance(condition, pa.Scalar):
        return np.full(rows, condition.as_py())
    return condition.to_numpy(zero_copy_only=False)


def _written(branches: tuple[tuple[Column, Column], ...]) -> str:
    return "".join(f"when({condition.text}).then({chosen.text})." for condition, chosen in branches)

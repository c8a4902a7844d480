"""Which of several expressions holds for a row?

Both branches are computed on all rows, which is the fastest; if one of them fails there, each is computed on the rows
that chose it. So `when(n != 0).then(100 // n).otherwise(0)` never divides by zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

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
        try:
            chosen, other = self.chosen.compute(batch), self.other.compute(batch)
        except EvaluationFailed:
            chosen, other = self._each_on_its_rows(batch, condition)
        try:
            return values.choose(condition, chosen, other)
        except Exception as error:
            raise EvaluationFailed(self.text, error) from error

    def _each_on_its_rows(self, batch: pa.RecordBatch, condition: Any) -> tuple[Any, Any]:
        if isinstance(condition, pa.Scalar):
            condition = pa.repeat(condition, batch.num_rows)
        return _on_rows(self.chosen, batch, condition), _on_rows(self.other, batch, pc.invert(condition))

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


def _on_rows(expression: Column, batch: pa.RecordBatch, mask: pa.Array) -> Any:
    """The expression where the mask is true, null elsewhere; as long as the batch, unless it is a scalar."""
    result = expression.compute(batch.filter(mask))
    if isinstance(result, pa.Scalar):
        return result
    position = pc.subtract(pc.cumulative_sum(mask.cast(pa.int64())), 1)
    return result.take(pc.if_else(mask, position, pa.scalar(None, pa.int64())))


def _written(branches: tuple[tuple[Column, Column], ...]) -> str:
    return "".join(f"when({condition.text}).then({chosen.text})." for condition, chosen in branches)

"""Which part of an expression failed, on which row, and what can its author do?

A type that doesn't fit is found when the job is written, on a batch without rows. What the values do is found at
runtime; the first offending row is then searched for by halving the batch, so that the happy path costs nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Any

import pyarrow as pa

from cutwater.errors import UserError, UserFunctionError

_NEXT_LINE = "\n          "  # under the first word behind "  detail: "
_ROW_CHARACTERS_MAX = 200
_NO_KERNEL = re.compile(r"no kernel matching input types \((.*)\)")


class TypesDoNotFit(TypeError):
    """An operation that no values of these types have."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class EvaluationFailed(Exception):
    """A part of an expression could not be computed. Never leaves the package and its operators."""

    def __init__(self, part: str, cause: Exception, *, function: Callable[..., Any] | None = None) -> None:
        super().__init__(f"{part}: {cause}")
        self.part = part
        self.cause = cause
        #: The user's own, if it was that which failed.
        self.function = function

    @property
    def is_about_types(self) -> bool:
        kinds = (TypesDoNotFit, pa.ArrowNotImplementedError, pa.ArrowTypeError)
        return self.function is None and isinstance(self.cause, kinds)


def missing_column(name: str, present: Sequence[str], *, where: str) -> UserError:
    """Names the columns there are, and the one that was perhaps meant."""
    shown = [other for other in present if not other.startswith("__")]
    fact = f'{where} reads column "{name}", which' if where else f'column "{name}"'
    if name in present:
        detail = f"columns: {', '.join(shown)}"
        return UserError(f"{fact} exists more than once", detail=detail, hint="give each column a name of its own")
    near = get_close_matches(name, shown, n=1) or [other for other in shown if other.lower() == name.lower()]
    return UserError(
        f"{fact} does not exist",
        detail=f"columns: {', '.join(shown) or 'none'}",
        hint=f'did you mean "{near[0]}"?' if near else "",
    )


def type_error(
    failure: EvaluationFailed, *, expression: str, schema: pa.Schema, columns: frozenset[str], where: str
) -> UserError:
    """The expression can't be computed on columns of these types."""
    used = ", ".join(f"{name} is {schema.field(name).type}" for name in schema.names if name in columns)
    message = _message_of(failure, expression)
    hint = getattr(failure.cause, "hint", "") or 'cast one side, as in .cast("float64")'
    if failure.function is not None:
        hint = "the function is called with an array without values to learn its type; or say it: .apply(f, returns=…)"
    return UserError(
        f'expression "{expression}"{_of(where)} does not fit its columns',
        detail=_NEXT_LINE.join([message, used] if used else [message]),
        hint=hint,
    )


def value_error(
    failure: EvaluationFailed, *, expression: str, row: tuple[int, dict[str, Any]] | None, where: str
) -> UserFunctionError:
    """The expression failed on a row that has the wrong values."""
    lines = [_message_of(failure, expression)]
    if row is not None:
        lines.append(shown_row(row))
    return UserFunctionError(
        f'expression "{expression}"{_of(where)} failed on a {"row" if row is not None else "batch"}',
        detail=_NEXT_LINE.join(lines),
        hint=_hint_for(failure),
    )


def shown_row(row: tuple[int, dict[str, Any]]) -> str:
    """The row in one line, however large."""
    index, values = row
    text = ", ".join(f"{name}={value!r}" for name, value in values.items())
    if len(text) > _ROW_CHARACTERS_MAX:
        text = text[: _ROW_CHARACTERS_MAX - 1] + "…"
    return f"row {index} of the batch: {text}"


def first_offending_row(
    compute: Callable[[pa.RecordBatch], Any], batch: pa.RecordBatch, columns: frozenset[str]
) -> tuple[int, dict[str, Any]] | None:
    """Its position and what it holds in these columns; None: no row is to blame."""
    if not columns or not batch.num_rows or _fails(compute, batch.slice(0, 0)):
        return None
    batch = batch.select([name for name in batch.schema.names if name in columns])
    start, end = 0, batch.num_rows
    while end - start > 1:
        middle = (start + end) // 2
        if _fails(compute, batch.slice(start, middle - start)):
            end = middle
        else:
            start = middle
    row = batch.slice(start, 1)
    return (start, row.to_pylist()[0]) if _fails(compute, row) else None


def _fails(compute: Callable[[pa.RecordBatch], Any], batch: pa.RecordBatch) -> bool:
    try:
        compute(batch)
    except EvaluationFailed:
        return True
    return False


def _message_of(failure: EvaluationFailed, expression: str) -> str:
    cause = failure.cause
    text = str(cause) if isinstance(cause, pa.ArrowException | TypesDoNotFit) else f"{type(cause).__name__}: {cause}"
    unknown = _NO_KERNEL.search(text)
    if unknown is not None:
        return f"{failure.part} is not defined for {unknown[1]}"
    text = text.replace("\n", _NEXT_LINE)
    return text if failure.part == expression else f"{failure.part}: {text}"


def _hint_for(failure: EvaluationFailed) -> str:
    message = str(failure.cause)
    guard = "guard it by when(…).then(…).otherwise(…), or filter such rows out in a step before"
    if "overflow" in message:
        return f'compute in a wider type, as in .cast("int64") or .cast("float64"); or {guard}'
    if "divide by zero" in message:
        return f"{guard}; / divides as floats do, without an error"
    return guard


def _of(where: str) -> str:
    return f" of {where}" if where else ""

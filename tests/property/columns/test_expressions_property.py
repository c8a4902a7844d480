"""Whatever the expression and the rows: Arrow gives what Python gives row by row, failures included."""
# ruff: noqa: DTZ001 (columns without a time zone are tested, too)

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cutwater.columns.cases import when
from cutwater.columns.expressions import Column, col, lit
from cutwater.errors import UserError, UserFunctionError

Row = dict[str, Any]
SMALLEST, LARGEST = -(2**63), 2**63 - 1


class Fails(Exception):
    """What the expression must refuse to compute."""


@dataclass(frozen=True)
class Pair:
    """An expression, and the same as a function of a row."""

    column: Column
    model: Callable[[Row], Any]
    #: A part without columns fails by itself, so the expression fails on any batch.
    is_doomed: bool = False

    def __repr__(self) -> str:
        return repr(self.column)


def strict(function: Callable[..., Any]) -> Callable[..., Any]:
    """Null in, null out."""
    return lambda *values: None if any(value is None for value in values) else function(*values)


def whole(value: Any) -> Any:
    """An integer of 64 bits, or a failure."""
    if isinstance(value, int) and not SMALLEST <= value <= LARGEST:
        raise Fails
    return value


def true_division(left: float, right: float) -> float:
    left, right = float(left), float(right)
    if right == 0:
        return math.nan if left == 0 or math.isnan(left) else math.copysign(math.inf, left) * math.copysign(1, right)
    return left / right


def divided(left: int, right: int) -> tuple[int, int]:
    if right == 0 or (left == SMALLEST and right == -1):
        raise Fails
    return divmod(left, right)


def both(left: bool | None, right: bool | None) -> bool | None:
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


def either(left: bool | None, right: bool | None) -> bool | None:
    negated = both(strict(lambda value: not value)(left), strict(lambda value: not value)(right))
    return None if negated is None else not negated


def combined(make: Callable[..., Column], model: Callable[..., Any], *pairs: Pair) -> Pair:
    column = make(*(pair.column for pair in pairs))
    return doomed_by_parts(Pair(column, lambda row: model(*(pair.model(row) for pair in pairs))), *pairs)


def doomed_by_parts(whole_pair: Pair, *parts: Pair) -> Pair:
    is_doomed = any(part.is_doomed for part in parts)
    if not whole_pair.column.columns and not is_doomed:
        try:
            whole_pair.model({})
        except Fails:
            is_doomed = True
    return replace(whole_pair, is_doomed=is_doomed)


# ---------------------------------------------------------------------------------------------------------- expressions

whole_numbers = st.one_of(st.integers(-4, 4), st.integers(SMALLEST, LARGEST), st.sampled_from([SMALLEST, LARGEST]))
texts = st.text(alphabet="abAßé𝄞 ", max_size=4)
times = st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1)).map(
    lambda moment: moment.replace(microsecond=moment.microsecond // 1000 * 1000)
)


def leaf(name: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[Pair]:
    field = Pair(col(name), lambda row: row[name])
    return st.one_of(st.just(field), values.map(lambda value: Pair(lit(value), lambda row: value)))


INTEGER_MODELS: list[tuple[Callable[..., Column], Callable[..., Any]]] = [
    (lambda a, b: a + b, strict(lambda a, b: whole(a + b))),
    (lambda a, b: a - b, strict(lambda a, b: whole(a - b))),
    (lambda a, b: a * b, strict(lambda a, b: whole(a * b))),
    (lambda a, b: a // b, strict(lambda a, b: divided(a, b)[0])),
    (lambda a, b: a % b, strict(lambda a, b: divided(a, b)[1])),
    (lambda a, b: a.fill_null(b), lambda a, b: b if a is None else a),
]
COMPARISONS: list[tuple[Callable[..., Column], Callable[..., Any]]] = [
    (lambda a, b: a == b, strict(lambda a, b: a == b)),
    (lambda a, b: a != b, strict(lambda a, b: a != b)),
    (lambda a, b: a < b, strict(lambda a, b: a < b)),
    (lambda a, b: a <= b, strict(lambda a, b: a <= b)),
    (lambda a, b: a > b, strict(lambda a, b: a > b)),
    (lambda a, b: a >= b, strict(lambda a, b: a >= b)),
]
NOT_ZERO: tuple[Callable[..., Column], Callable[..., Any]] = (lambda a: a != 0, strict(lambda a: a != 0))
TRUTHS: list[tuple[Callable[..., Column], Callable[..., Any]]] = [
    (lambda a, b: a & b, both),
    (lambda a, b: a | b, either),
    (lambda a, b: ~a & b, lambda a, b: both(strict(lambda value: not value)(a), b)),
]
ABOUT_NULLS: list[tuple[Callable[..., Column], Callable[..., Any]]] = [
    (lambda a: a.is_null(), lambda a: a is None),
    (lambda a: a.is_valid(), lambda a: a is not None),
]


def predicates(part: str) -> list[tuple[Callable[..., Column], Callable[..., Any]]]:
    return [
        (lambda a: a.contains(part), strict(lambda a: part in a)),
        (lambda a: a.starts_with(part), strict(lambda a: a.startswith(part))),
        (lambda a: a.ends_with(part), strict(lambda a: a.endswith(part))),
        (lambda a: a.is_in([part, "a"]), strict(lambda a: a in (part, "a"))),
        (lambda a: a.is_in([]), strict(lambda a: False)),
        (lambda a: a.length() + 0, strict(len)),
        (lambda a: a.substring(-2, 1), strict(lambda a: a[-2:][:1])),
    ]


def chosen(condition: Pair, yes: Pair, no: Pair) -> Pair:
    """Only the branch that a row chose may fail."""
    column = when(condition.column).then(yes.column).otherwise(no.column)
    pair = Pair(column, lambda row: yes.model(row) if condition.model(row) else no.model(row))
    return doomed_by_parts(pair, condition, yes, no)


def compared(operands: st.SearchStrategy[Pair]) -> st.SearchStrategy[Pair]:
    return st.tuples(st.sampled_from(COMPARISONS), operands, operands).map(
        lambda drawn: combined(*drawn[0], drawn[1], drawn[2])
    )


def integer_expressions(depth: int) -> st.SearchStrategy[Pair]:
    leaves = st.one_of(leaf("i", whole_numbers), leaf("j", st.integers(-4, 4)))
    if depth == 0:
        return leaves
    smaller = integer_expressions(depth - 1)
    infix = st.tuples(st.sampled_from(INTEGER_MODELS), smaller, smaller)
    return st.one_of(
        leaves,
        infix.map(lambda drawn: combined(*drawn[0], drawn[1], drawn[2])),
        smaller.map(lambda pair: combined(lambda a: -a, strict(lambda a: whole(-a)), pair)),
        text_expressions(0).map(lambda pair: combined(lambda a: a.length().cast("int64"), strict(len), pair)),
        st.builds(chosen, conditions(depth - 1), smaller, smaller),
    )


def text_expressions(depth: int) -> st.SearchStrategy[Pair]:
    leaves = st.one_of(leaf("s", texts), leaf("encoded", texts))
    if depth == 0:
        return leaves
    smaller = text_expressions(depth - 1)

    def sliced(pair: Pair, start: int, length: int | None) -> Pair:
        return combined(lambda a: a.substring(start, length), strict(lambda a: a[start:][:length]), pair)

    return st.one_of(
        leaves,
        st.tuples(smaller, smaller).map(lambda two: combined(lambda a, b: a + b, strict(lambda a, b: a + b), *two)),
        st.tuples(smaller, smaller).map(
            lambda two: combined(lambda a, b: a.fill_null(b), lambda a, b: b if a is None else a, *two)
        ),
        st.builds(sliced, smaller, st.integers(-5, 5), st.none() | st.integers(0, 5)),
        st.builds(chosen, conditions(depth - 1), smaller, smaller),
    )


def conditions(depth: int) -> st.SearchStrategy[Pair]:
    if depth == 0:
        return leaf("p", st.booleans())
    smaller, numbers, words = conditions(depth - 1), integer_expressions(depth - 1), text_expressions(depth - 1)
    two = st.tuples(smaller, smaller)

    def member(pair: Pair, values: list[Any]) -> Pair:
        return combined(lambda a: a.is_in(values), strict(lambda a: a in values), pair)

    def searched(pair: Pair, part: str) -> Pair:
        return combined(lambda a: a.contains(part), strict(lambda a: part in a), pair)

    def begun(pair: Pair, part: str) -> Pair:
        return combined(lambda a: a.starts_with(part), strict(lambda a: a.startswith(part)), pair)

    def ended(pair: Pair, part: str) -> Pair:
        return combined(lambda a: a.ends_with(part), strict(lambda a: a.endswith(part)), pair)

    def within(pair: Pair, low: int, high: int) -> Pair:
        return combined(lambda a: a.between(low, high), strict(lambda a: low <= a <= high), pair)

    return st.one_of(
        leaf("p", st.booleans()),
        compared(numbers),
        compared(words),
        compared(leaf("t", times)),
        compared(leaf("z", times.map(lambda moment: moment.replace(tzinfo=UTC)))),
        two.map(lambda sides: combined(lambda a, b: a & b, both, *sides)),
        two.map(lambda sides: combined(lambda a, b: a | b, either, *sides)),
        smaller.map(lambda pair: combined(lambda a: ~a, strict(lambda a: not a), pair)),
        st.one_of(numbers, words).map(lambda pair: combined(lambda a: a.is_null(), lambda a: a is None, pair)),
        st.one_of(numbers, words).map(lambda pair: combined(lambda a: a.is_valid(), lambda a: a is not None, pair)),
        st.builds(member, numbers, st.lists(st.integers(-4, 4))),
        st.builds(member, words, st.lists(texts)),
        st.builds(searched, words, texts),
        st.builds(begun, words, texts),
        st.builds(ended, words, texts),
        st.builds(within, numbers, st.integers(-4, 4), st.integers(-4, 4)),
    )


# ----------------------------------------------------------------------------------------------------------------- rows

SCHEMA = pa.schema(
    {
        "i": pa.int64(),
        "j": pa.int64(),
        "f": pa.float64(),
        "g": pa.float64(),
        "p": pa.bool_(),
        "s": pa.string(),
        "encoded": pa.dictionary(pa.int8(), pa.string()),
        "t": pa.timestamp("ms"),
        "z": pa.timestamp("ms", "Europe/Berlin"),
    }
)
floats = st.floats(width=32) | st.floats()
rows = st.lists(
    st.fixed_dictionaries(
        {
            "i": st.none() | whole_numbers,
            "j": st.none() | st.integers(-4, 4),
            "f": st.none() | floats,
            "g": st.none() | floats,
            "p": st.none() | st.booleans(),
            "s": st.none() | texts,
            "encoded": st.none() | st.sampled_from(["a", "ab", "ß"]),
            "t": st.none() | times,
            "z": st.none() | times.map(lambda moment: moment.replace(tzinfo=UTC)),
        }
    ),
    max_size=12,
)


def batch_of(rows: list[Row], skipped: int) -> pa.RecordBatch:
    """A slice that begins anywhere in its buffers."""
    filler = dict.fromkeys(SCHEMA.names)
    return pa.RecordBatch.from_pylist([filler] * skipped + rows, schema=SCHEMA).slice(skipped)


def agree(pair: Pair, rows: list[Row], batch: pa.RecordBatch) -> None:
    if pair.is_doomed:
        with pytest.raises(UserError):
            pair.column.evaluate(batch)
        return
    outcomes = []
    for index, row in enumerate(rows):
        try:
            outcomes.append(pair.model(row))
        except Fails:
            with pytest.raises(UserFunctionError) as failure:
                pair.column.evaluate(batch)
            assert f"row {index} of the batch" in failure.value.detail
            return
    array = pair.column.evaluate(batch)
    array.validate(full=True)
    assert array.type == pair.column.check(SCHEMA, where="property")
    assert same(array.to_pylist(), outcomes), (array.to_pylist(), outcomes)


def same(one: list[Any], other: list[Any]) -> bool:
    return all(a == b or (a != a and b != b) for a, b in zip(one, other, strict=True))


# ----------------------------------------------------------------------------------------------------------- properties

columns = {name: Pair(col(name), lambda row, name=name: row[name]) for name in SCHEMA.names}


def constant(value: Any) -> Pair:
    return Pair(lit(value), lambda row: value)


@settings(max_examples=40)
@given(
    rows=rows, number=whole_numbers, part=texts, time=times, encoded=st.sampled_from("abß"), skipped=st.integers(0, 9)
)
def test_every_operation_gives_what_python_gives_for_columns_and_constants(
    rows: list[Row], number: int, part: str, time: datetime, encoded: str, skipped: int
) -> None:
    """The deep expressions below seldom meet the edges of one operation; here each meets all rows."""
    i, j, p, s, e, t, z = (columns[name] for name in ("i", "j", "p", "s", "encoded", "t", "z"))
    operands = [(i, j), (j, i), (i, constant(number)), (constant(number), j), (i, constant(-1)), (j, constant(2))]
    words = [(s, e), (s, constant(part)), (e, constant(encoded)), (constant(encoded), e)]
    moments = [(t, constant(time)), (z, constant(time.replace(tzinfo=UTC))), (constant(time), t)]
    truths = [(p, p), (p, constant(True)), (constant(False), p), (combined(*COMPARISONS[2], i, j), p)]
    pairs = [combined(*operation, *two) for operation in INTEGER_MODELS for two in operands]
    pairs += [combined(*operation, *two) for operation in COMPARISONS for two in operands + words + moments]
    pairs += [combined(*operation, *two) for operation in TRUTHS for two in truths]
    pairs += [combined(*operation, word) for operation in predicates(part) for word in (s, e)]
    pairs += [combined(*operation, value) for operation in ABOUT_NULLS for value in (i, p, s, e, t)]
    pairs += [chosen(p, one, other) for one, other in operands + words]
    pairs += [chosen(combined(*NOT_ZERO, j), combined(*operation, i, j), j) for operation in INTEGER_MODELS]
    batch = batch_of(rows, skipped)
    for pair in pairs:
        agree(pair, rows, batch)


@given(pair=integer_expressions(3), rows=rows, skipped=st.integers(0, 9))
def test_integers_are_computed_as_python_does_row_by_row(pair: Pair, rows: list[Row], skipped: int) -> None:
    agree(pair, rows, batch_of(rows, skipped))


@given(pair=conditions(3), rows=rows, skipped=st.integers(0, 9))
def test_conditions_hold_for_the_rows_for_which_python_says_so(pair: Pair, rows: list[Row], skipped: int) -> None:
    agree(pair, rows, batch_of(rows, skipped))


@given(pair=text_expressions(3), rows=rows, skipped=st.integers(0, 9))
def test_texts_are_computed_as_python_does_row_by_row(pair: Pair, rows: list[Row], skipped: int) -> None:
    agree(pair, rows, batch_of(rows, skipped))


@given(rows=rows, constant=floats, skipped=st.integers(0, 9))
@example(rows=[{**dict.fromkeys(SCHEMA.names), "f": 1.0, "g": 0.1}], constant=0.1, skipped=0)
def test_floats_are_divided_as_python_does_and_never_fail(rows: list[Row], constant: float, skipped: int) -> None:
    f, g, i = col("f"), col("g"), col("i")
    pairs = [
        Pair(f / g, lambda row: strict(true_division)(row["f"], row["g"])),
        Pair(i / g, lambda row: strict(true_division)(row["i"], row["g"])),
        Pair(i / 0, lambda row: strict(true_division)(row["i"], 0)),
        Pair(i * g, lambda row: strict(lambda a, b: float(a) * b)(row["i"], row["g"])),
        Pair(f % constant, lambda row: strict(floor_parts)(row["f"], constant)[1] if row["f"] is not None else None),
        Pair(f // constant, lambda row: strict(floor_parts)(row["f"], constant)[0] if row["f"] is not None else None),
        Pair(f // g, lambda row: (strict(floor_parts)(row["f"], row["g"]) or (None,))[0]),
        Pair(constant % g, lambda row: (strict(floor_parts)(constant, row["g"]) or (0, None))[1]),
    ]
    batch = batch_of(rows, skipped)
    for pair in pairs:
        agree(pair, rows, batch)


def floor_parts(left: float, right: float) -> tuple[float, float]:
    """Python's divmod, and IEEE 754 where Python raises."""
    return divmod(left, right) if right != 0 else (true_division(left, right), math.nan)


@given(rows=rows, skipped=st.integers(0, 9), interval_ms=st.integers(1, 10_000_000))
def test_times_are_taken_apart_as_python_does(rows: list[Row], skipped: int, interval_ms: int) -> None:
    interval = timedelta(milliseconds=interval_ms)
    epoch = datetime(1970, 1, 1)
    time = col("t")
    pairs = [
        Pair(time.year(), lambda row: strict(lambda moment: moment.year)(row["t"])),
        Pair(time.month(), lambda row: strict(lambda moment: moment.month)(row["t"])),
        Pair(time.day(), lambda row: strict(lambda moment: moment.day)(row["t"])),
        Pair(time.hour(), lambda row: strict(lambda moment: moment.hour)(row["t"])),
        Pair(time.date(), lambda row: strict(lambda moment: moment.date())(row["t"])),
        Pair(time + interval, lambda row: strict(lambda moment: moment + interval)(row["t"])),
        Pair(time.floor(interval), lambda row: strict(lambda moment: moment - (moment - epoch) % interval)(row["t"])),
    ]
    batch = batch_of(rows, skipped)
    for pair in pairs:
        agree(pair, rows, batch)

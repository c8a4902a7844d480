"""What does an expression give, how is it written, and what does it refuse?"""
# ruff: noqa: DTZ001, SIM300 (columns without a time zone are tested, too; a capital letter is a column here)

from __future__ import annotations

import math
import pickle
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from cutwater.columns.cases import when
from cutwater.columns.expressions import Column, col, lit
from cutwater.errors import UserError

A, B = col("a"), col("b")
MOMENT = datetime(2024, 2, 29, 23, 30, 17, 250_000)


def result(expression: Column, **columns: Any) -> list[Any]:
    batch = pa.record_batch(columns)
    array = expression.evaluate(batch)
    assert array.type == expression.check(batch.schema, where="test")
    values: list[Any] = array.to_pylist()
    return values


# ------------------------------------------------------------------------------------------------------------ numbers


def test_arithmetic_keeps_nulls() -> None:
    assert result((A + 1) * B - A, a=[1, None, 3], b=[10, 20, None]) == [19, None, None]


def test_a_slash_divides_truly_and_by_zero_as_floats_do() -> None:
    assert result(A / B, a=[1, -1, 7, None], b=[2, 0, 0, 1]) == [0.5, -math.inf, math.inf, None]


@pytest.mark.parametrize("divisor", [B, lit(3)])
def test_integers_are_divided_downwards_and_the_rest_has_the_sign_of_the_divisor(divisor: Column) -> None:
    values = [-7, 7, -6, 0, None]
    batch = {"a": values, "b": [3] * 5}
    assert result(A // divisor, **batch) == [-3, 2, -2, 0, None]
    assert result(A % divisor, **batch) == [2, 1, 0, 0, None]


def test_division_by_a_negative_constant_is_as_in_python() -> None:
    values = list(range(-9, 10))
    assert result(A // -4, a=values) == [value // -4 for value in values]
    assert result(A % -4, a=values) == [value % -4 for value in values]


def test_the_rest_of_the_smallest_integer_is_right() -> None:
    assert result(A % 3, a=[-(2**63)]) == [-(2**63) % 3]


def test_the_nulls_of_a_slice_stay_where_they_are() -> None:
    batch = pa.record_batch({"a": [1, None, 3, 4, None]}).slice(1, 3)
    assert (A % 3).evaluate(batch).to_pylist() == [None, 0, 1]


def test_floats_are_floored_as_in_python_where_a_rounded_quotient_would_be_one_too_many() -> None:
    assert result(A // 0.1, a=[1.0, None]) == [1.0 // 0.1, None] == [9.0, None]
    assert result(A % B, a=[1e20, -1.5], b=[3.0, 1.0]) == [1e20 % 3.0, 0.5]


def test_an_integer_that_a_float_can_t_hold_is_rounded_beside_a_float() -> None:
    assert result(A * 1.0, a=[2**53 + 1]) == [float(2**53 + 1)]
    assert result(A > 1.5, a=[2**53 + 1]) == [True]


def test_a_constant_gives_a_narrow_integer_room() -> None:
    assert result(A * 100, a=pa.array([100], pa.int8())) == [10_000]


def test_an_unsigned_column_stays_unsigned_beside_a_constant() -> None:
    largest = 2**64 - 1
    assert result(A - 1, a=pa.array([largest], pa.uint64())) == [largest - 1]
    assert result(A // 2, a=pa.array([largest], pa.uint64())) == [largest // 2]
    assert result(A == largest, a=pa.array([largest], pa.uint64())) == [True]


def test_decimals_are_computed_exactly() -> None:
    assert result(A + B, a=[Decimal("0.10")], b=[Decimal("0.20")]) == [Decimal("0.30")]
    assert result(A / 4, a=[Decimal("0.10")]) == [0.025]


@pytest.mark.parametrize("nothing", [lit(None).cast("int64"), lit(None).cast("float64")])
def test_a_null_constant_makes_every_quotient_null(nothing: Column) -> None:
    for expression in (A // nothing, A % nothing, nothing // A, nothing % A, A / nothing, nothing // nothing):
        assert result(expression, a=[7, 0, None]) == [None, None, None]


def test_constants_on_the_left_and_numpy_numbers_work() -> None:
    assert result(10 - A, a=[1]) == [9]
    assert result(np.int64(7) // A, a=[2]) == [3]
    assert result(-A, a=[1, None]) == [-1, None]


def test_an_expression_of_constants_is_repeated_for_every_row() -> None:
    assert result(lit(7) % 4 + 1, a=[0, 0, 0]) == [4, 4, 4]
    assert result(lit(7.5) // 2, a=[0]) == [3.0]
    assert result(lit(None), a=[0]) == [None]


# ------------------------------------------------------------------------------------------------ comparison and truth


def test_comparisons_with_null_are_null() -> None:
    assert result(A >= B, a=[1, 2, None], b=[2, 2, 2]) == [False, True, None]


def test_a_constant_that_a_narrow_column_can_t_hold_is_still_compared() -> None:
    assert result(A < 1000, a=pa.array([1, None], pa.int8())) == [True, None]


def test_between_includes_both_ends() -> None:
    assert result(A.between(1, B), a=[0, 1, 3, 4], b=[3, 3, 3, None]) == [False, True, True, None]


def test_and_and_or_know_what_null_can_t_change() -> None:
    sides = {"a": [True, True, False, None], "b": [None, False, None, None]}
    assert result(A & B, **sides) == [None, False, False, None]
    assert result(A | B, **sides) == [True, True, None, None]
    assert result(~A, **sides) == [False, False, True, None]


def test_is_in_leaves_null_null() -> None:
    assert result(A.is_in([1, 3]), a=[1, 2, None]) == [True, False, None]
    assert result(~A.is_in([]), a=[1, None]) == [True, None]
    assert result(A.is_in([]), a=["x", None]) == [False, None]


def test_candidates_may_be_of_another_kind_of_number() -> None:
    assert result(A.is_in([1, 300]), a=pa.array([1], pa.int8())) == [True]
    assert result(A.is_in([1, 2]), a=[1.0, 1.5]) == [True, False]
    assert result(A.is_in([1.0, 1.5]), a=[1, 2]) == [True, False]


def test_nulls_are_found_and_filled() -> None:
    assert result(A.is_null(), a=[1, None]) == [False, True]
    assert result(A.is_valid(), a=[1, None]) == [True, False]
    assert result(A.fill_null(0.0), a=[1.5, None]) == [1.5, 0.0]
    assert result(A.fill_null(0), a=[1.5, None]) == [1.5, 0.0]
    assert result(A.fill_null(B), a=[1, None], b=[0.5, 0.5]) == [1.0, 0.5]


def test_filling_nulls_keeps_the_type_of_the_column() -> None:
    assert A.fill_null(0).check(pa.schema({"a": pa.int16()}), where="test") == pa.int16()
    with pytest.raises(UserError, match="70000 does not fit into int16"):
        A.fill_null(70_000).check(pa.schema({"a": pa.int16()}), where="test")


# ------------------------------------------------------------------------------------------------- types, texts, times


@pytest.mark.parametrize("name", ["bigint", "long", "int64", pa.int64()])
def test_a_cast_takes_names_of_arrow_and_of_spark(name: Any) -> None:
    assert A.cast(name).check(pa.schema({"a": pa.string()}), where="test") == pa.int64()


def test_a_cast_cuts_fractions_off() -> None:
    assert result(A.cast("int64"), a=[1.9, -1.9, None]) == [1, -1, None]
    assert result(A.cast("timestamp[s]"), a=[MOMENT]) == [MOMENT.replace(microsecond=0)]


@pytest.mark.parametrize(("value", "kind"), [(1e30, "int64"), (math.nan, "int64"), (300, "int8"), ("x", "int64")])
def test_a_cast_of_what_does_not_fit_fails(value: Any, kind: str) -> None:
    with pytest.raises(UserError, match=f"a.cast\\('{kind}'\\)"):
        A.cast(kind).evaluate(pa.record_batch({"a": [value]}))


def test_texts_are_joined_changed_and_searched() -> None:
    texts = ["Straße", "ab", None]
    assert result(A + "!", a=texts) == ["Straße!", "ab!", None]
    assert result(A.lower(), a=texts) == ["straße", "ab", None]
    assert result(A.length(), a=texts) == [6, 2, None]
    assert result(A.contains("ra"), a=texts) == [True, False, None]
    assert result(A.starts_with("S"), a=texts) == [True, False, None]
    assert result(A.ends_with("b"), a=texts) == [False, True, None]


@pytest.mark.parametrize(("start", "length"), [(0, 2), (1, 3), (4, 5), (-3, 2), (-9, 2), (2, None), (0, 0)])
def test_a_substring_is_what_python_slices(start: int, length: int | None) -> None:
    texts = ["Straße", "ab", ""]
    assert result(A.substring(start, length), a=texts) == [text[start:][:length] for text in texts]


def test_times_are_taken_apart() -> None:
    parts = [A.year(), A.month(), A.day(), A.hour(), A.date()]
    assert [result(part, a=[MOMENT])[0] for part in parts] == [2024, 2, 29, 23, date(2024, 2, 29)]


def test_times_with_a_zone_are_taken_apart_in_it() -> None:
    column = pa.array([MOMENT.replace(tzinfo=UTC)], pa.timestamp("ms", "Europe/Berlin"))
    parts = [A.month(), A.day(), A.hour(), A.date(), A.floor("1d").day()]
    assert [result(part, a=column)[0] for part in parts] == [3, 1, 0, date(2024, 3, 1), 1]


@pytest.mark.parametrize("interval", ["10s", timedelta(seconds=10)])
def test_a_time_is_rounded_down_to_its_interval(interval: Any) -> None:
    before_1970 = datetime(1969, 12, 31, 23, 59, 59)
    assert result(A.floor(interval), a=[MOMENT, None, before_1970]) == [
        datetime(2024, 2, 29, 23, 30, 10),
        None,
        datetime(1969, 12, 31, 23, 59, 50),
    ]


def test_a_time_keeps_its_unit_when_a_duration_is_added() -> None:
    kind = pa.timestamp("ms", "Europe/Berlin")
    assert (A + timedelta(seconds=1)).check(pa.schema({"a": kind}), where="test") == kind


def test_times_of_two_zones_can_be_compared_and_subtracted() -> None:
    moment = MOMENT.replace(tzinfo=UTC)
    columns = {
        "a": pa.array([moment], pa.timestamp("ms", "Europe/Berlin")),
        "b": pa.array([moment + timedelta(seconds=1)], pa.timestamp("us", "UTC")),
    }
    assert result(A < B, **columns) == [True]
    assert result(B - A, **columns) == [timedelta(seconds=1)]
    assert result(A == moment, **columns) == [True]
    assert result(lit(moment) >= A, **columns) == [True]
    assert result(A.is_in([moment]), **columns) == [True]


# ------------------------------------------------------------------------------------------------------- escape hatch


def test_a_function_of_an_array_is_applied() -> None:
    assert result(A.apply(pc.sqrt) + 1, a=[4.0, None]) == [3.0, None]
    assert result(A.apply(lambda array: array.to_numpy() * 2), a=[4]) == [8]
    assert result(A.apply(lambda array: pa.chunked_array([array, array[:0]])), a=[4]) == [4]


def test_a_function_with_a_known_type_is_not_called_without_rows() -> None:
    def first_twice(array: pa.Array) -> Any:
        return pa.repeat(array[0], len(array))

    assert result(A.apply(first_twice, returns="float64"), a=[4, 5]) == [4.0, 4.0]


def test_a_function_that_returns_the_wrong_number_of_values_is_refused() -> None:
    with pytest.raises(UserError, match="returned 1 values for 2 rows"):
        A.apply(lambda array: array[:1], returns="int64").evaluate(pa.record_batch({"a": [1, 2]}))


# ----------------------------------------------------------------------------------------------- the expression itself


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (col("price") * 2 > 100, "price * 2 > 100"),
        ((A + 1) * B, "(a + 1) * b"),
        (A - (B - 1), "a - (b - 1)"),
        (A - B - 1, "a - b - 1"),
        (2 * A, "2 * a"),
        (-(A + 1), "-(a + 1)"),
        (-A * 2, "-a * 2"),
        (A - -lit(-1), "a - -(-1)"),
        ((A > 1) & ~(B < 2) | (A == "x"), "(a > 1) & ~(b < 2) | (a == 'x')"),
        ((A == B) == lit(True), "(a == b) == True"),
        ((A + 1).cast("int"), "(a + 1).cast('int')"),
        (A.substring(1), "a.substring(1)"),
        (A.floor("10s"), "a.floor('10s')"),
        (A.is_in(["x", "y"]), "a.is_in(['x', 'y'])"),
        (A.fill_null(-1), "a.fill_null(-1)"),
        (lit("x").upper(), "lit('x').upper()"),
        (col("a b").is_null(), "col('a b').is_null()"),
        (A.apply(pc.sqrt), "a.apply(sqrt)"),
        ((A + B).alias("c"), "(a + b).alias('c')"),
        (
            when(A > 1).then("x").when(B).then(A).otherwise(None),
            "when(a > 1).then('x').when(b).then(a).otherwise(None)",
        ),
    ],
)
def test_an_expression_is_shown_as_it_is_written(expression: Column, text: str) -> None:
    assert repr(expression) == text


def test_an_expression_knows_the_columns_it_reads() -> None:
    expression = when(A > 1).then(B.apply(pc.sqrt)).otherwise(col("c").fill_null(col("d")).alias("x"))
    assert expression.columns == {"a", "b", "c", "d"}
    assert lit(1).columns == frozenset()


def test_a_name_is_the_alias_the_column_or_the_text() -> None:
    assert [A.name, (A + 1).alias("c").name, (A + 1).name] == ["a", "c", "a + 1"]


def test_an_expression_survives_pickling() -> None:
    expression = when(A.is_in([1, 2]) & A.between(0, 9)).then(-A % 2).otherwise(lit(3).cast("int64"))
    copy = pickle.loads(pickle.dumps(expression))
    assert repr(copy) == repr(expression)
    assert result(copy, a=[1, 5]) == [1, 3]


def test_an_expression_can_t_be_changed() -> None:
    with pytest.raises(AttributeError):
        A.field = "b"  # type: ignore[attr-defined]


@pytest.mark.parametrize("wrong", [lambda: A == None, lambda: A != None, lambda: A.between(None, 1)])  # noqa: E711
def test_a_comparison_with_none_is_refused(wrong: Any) -> None:
    with pytest.raises(UserError, match=r"use a\.is_null\(\)"):
        wrong()


def test_none_in_a_list_of_candidates_is_refused() -> None:
    with pytest.raises(UserError, match=r"add \| a\.is_null\(\)"):
        A.is_in([1, None])


@pytest.mark.parametrize("wrong", [lambda: A > 1 and B, lambda: not A, lambda: 1 < A < 5, lambda: 1 if A else 2])
def test_the_truth_of_an_expression_is_refused(wrong: Any) -> None:
    with pytest.raises(UserError, match=r"use & \| ~ instead of and, or, not"):
        wrong()


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: col(1),  # type: ignore[arg-type]
        lambda: lit(object()),
        lambda: lit(2**64),
        lambda: A + None,
        lambda: A.is_in([1, "x"]),
        lambda: A.is_in([B]),
        lambda: A.cast("nothing"),
        lambda: A.contains(B),  # type: ignore[arg-type]
        lambda: A.substring(0, -1),
        lambda: A.substring("0"),  # type: ignore[arg-type]
        lambda: A.floor("0s"),
        lambda: A.floor("ten"),
        lambda: A.apply(7),  # type: ignore[arg-type]
    ],
)
def test_what_makes_no_expression_is_refused_when_it_is_written(wrong: Any) -> None:
    with pytest.raises(UserError):
        wrong()

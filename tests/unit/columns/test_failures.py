"""Does an error name the part, the row, and what to do?"""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from cutwater.columns.expressions import col, lit
from cutwater.errors import UserError, UserFunctionError

SCHEMA = pa.schema({"price": pa.int64(), "word": pa.string(), "__time": pa.int64()})
PRICE, WORD = col("price"), col("word")


def test_a_missing_column_is_named_with_those_there_are_and_the_nearest() -> None:
    with pytest.raises(UserError) as failure:
        (col("prise") * 2).check(SCHEMA, where='select "totals"')
    assert str(failure.value).splitlines() == [
        'select "totals" reads column "prise", which does not exist',
        "  detail: columns: price, word",
        '  hint:   did you mean "price"?',
    ]


def test_a_column_in_other_letters_is_suggested() -> None:
    with pytest.raises(UserError, match='did you mean "price"'):
        col("PRICE").check(SCHEMA, where="select")


def test_a_column_that_is_missing_at_runtime_is_named_too() -> None:
    with pytest.raises(UserError, match='column "prise" does not exist'):
        col("prise").evaluate(pa.record_batch({"price": [1]}))


def test_a_name_that_two_columns_have_is_refused() -> None:
    schema = pa.schema([("a", pa.int64()), ("a", pa.int64())])
    with pytest.raises(UserError, match='reads column "a", which exists more than once'):
        col("a").check(schema, where="select")


def test_types_that_do_not_fit_name_the_expression_its_part_and_the_columns() -> None:
    with pytest.raises(UserError) as failure:
        (PRICE > WORD + 1).check(SCHEMA, where='filter "cheap"')
    assert str(failure.value).splitlines() == [
        'expression "price > word + 1" of filter "cheap" does not fit its columns',
        "  detail: word + 1 is not defined for string, int64",
        "          price is int64, word is string",
        '  hint:   cast one side, as in .cast("float64")',
    ]


@pytest.mark.parametrize(
    "expression",
    [
        WORD / 2,
        WORD // 2,
        PRICE & True,
        ~WORD,
        PRICE.upper(),
        PRICE.year(),
        PRICE.floor("1s"),
        WORD == 1,
        PRICE.is_in(["x"]),
        -WORD,
        PRICE.contains("x"),
        WORD.fill_null(1),
    ],
    ids=repr,
)
def test_an_operation_that_a_type_does_not_have_is_refused(expression: object) -> None:
    with pytest.raises(UserError, match="does not fit its columns"):
        expression.check(SCHEMA, where="select")  # type: ignore[attr-defined]


def test_types_that_do_not_fit_are_the_same_error_at_runtime() -> None:
    with pytest.raises(UserError, match=r'expression "word - 1" does not fit its columns'):
        (WORD - 1).evaluate(pa.record_batch({"word": ["a"]}))


@pytest.mark.parametrize("row", [0, 1, 500, 998, 999])
def test_the_first_row_that_overflows_is_named(row: int) -> None:
    values = [1] * row + [2**62] * (1000 - row)
    with pytest.raises(UserFunctionError) as failure:
        (PRICE * 4 + 1 > 0).evaluate(pa.record_batch({"price": values, "word": ["x"] * 1000}), where='operator "sum"')
    assert str(failure.value).splitlines()[:3] == [
        'expression "price * 4 + 1 > 0" of operator "sum" failed on a row',
        "  detail: price * 4: overflow",
        f"          row {row} of the batch: price={2**62}",
    ]


def test_integers_never_wrap() -> None:
    smallest = pa.record_batch({"price": [-(2**63)]})
    for expression in (PRICE - 1, -PRICE, PRICE * 2, PRICE // -1, PRICE + PRICE):
        with pytest.raises(UserFunctionError, match="overflow"):
            expression.evaluate(smallest)


def test_division_of_an_integer_by_zero_is_an_error_but_not_where_it_is_null() -> None:
    batch = pa.record_batch({"price": [1, None], "k": [None, 0]})
    assert (PRICE // col("k")).evaluate(batch).to_pylist() == [None, None]
    for expression in (PRICE // 0, PRICE % 0, 1 // (PRICE - 1)):
        with pytest.raises(UserFunctionError, match="divide by zero"):
            expression.evaluate(batch)


@pytest.mark.parametrize("values", [[], [1]])
def test_constants_that_fail_do_so_on_any_batch_and_blame_no_row(values: list[int]) -> None:
    with pytest.raises(UserFunctionError, match=r"failed on a batch\n  detail: 1 // 0: divide by zero"):
        (PRICE + lit(1) // 0).evaluate(pa.record_batch({"price": pa.array(values, pa.int64())}))


def test_a_long_row_is_cut() -> None:
    with pytest.raises(UserFunctionError) as failure:
        WORD.cast("int64").evaluate(pa.record_batch({"word": ["x" * 1000]}))
    assert len(failure.value.detail.splitlines()[-1]) < 300


def test_a_failure_can_cross_processes() -> None:
    with pytest.raises(UserFunctionError) as failure:
        (PRICE // 0).evaluate(pa.record_batch({"price": [1]}))
    assert str(pickle.loads(pickle.dumps(failure.value))) == str(failure.value)

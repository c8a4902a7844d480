"""Does each row get the branch that it chose, and is it spared the others?"""

from __future__ import annotations

import pyarrow as pa
import pytest

from cutwater.columns.cases import when
from cutwater.columns.expressions import col, lit
from cutwater.errors import UserError, UserFunctionError

A, B = col("a"), col("b")


def test_the_first_true_condition_decides_and_null_is_not_true() -> None:
    size = when(A > 10).then("large").when(A > 1).then("small").otherwise("none")
    assert size.evaluate(pa.record_batch({"a": [11, 2, 0, None]})).to_pylist() == ["large", "small", "none", "none"]


def test_a_branch_may_be_null() -> None:
    assert when(A > 1).then(None).otherwise(A).evaluate(pa.record_batch({"a": [1, 2]})).to_pylist() == [1, None]


def test_branches_meet_in_one_type() -> None:
    case = when(A > 1).then(A).otherwise(0.5)
    assert case.check(pa.schema({"a": pa.int32()}), where="test") == pa.float64()


def test_a_condition_guards_its_branch_against_failing() -> None:
    batch = pa.record_batch({"a": [7, 7, 7, None], "b": [2, 0, None, 1]})
    guarded = when(B != 0).then(A // B).otherwise(-1)
    assert guarded.evaluate(batch).to_pylist() == [3, -1, -1, None]


def test_a_guard_works_in_the_branches_of_a_guard() -> None:
    batch = pa.record_batch({"a": [7, -7, 7], "b": [2, 2, 0]})
    guarded = when(B == 0).then(None).when(A > 0).then(A // B).otherwise(A % B)
    assert guarded.evaluate(batch).to_pylist() == [3, 1, None]


def test_the_type_is_the_same_whether_a_guard_was_needed_or_not() -> None:
    batch = pa.record_batch({"a": pa.array([1, 2], pa.int16()), "b": pa.array([0, 1], pa.int32())})
    guarded = when(B != 0).then(A // B).otherwise(lit(0.5))
    assert guarded.evaluate(batch).type == guarded.check(batch.schema, where="test") == pa.float64()


def test_a_constant_condition_guards_too() -> None:
    batch = pa.record_batch({"a": [1]})
    assert when(lit(False)).then(A // 0).otherwise(A).evaluate(batch).to_pylist() == [1]


def test_a_branch_that_fails_on_its_own_rows_names_the_row() -> None:
    batch = pa.record_batch({"a": [1, 2], "b": [1, 0]})
    with pytest.raises(UserFunctionError, match=r"a // b: divide by zero\n +row 1 of the batch: a=2, b=0"):
        when(A > 0).then(A // B).otherwise(0).evaluate(batch)


def test_branches_of_types_that_have_nothing_in_common_are_refused() -> None:
    with pytest.raises(UserError, match="not defined for bool, string, int64"):
        when(A > 0).then("x").otherwise(A).check(pa.schema({"a": pa.int64()}), where="test")


def test_a_condition_must_be_true_or_false() -> None:
    with pytest.raises(UserError, match="a: int64 is neither true nor false"):
        when(A).then(1).otherwise(2).check(pa.schema({"a": pa.int64()}), where="test")


def test_an_unfinished_case_is_no_operand() -> None:
    with pytest.raises(UserError, match=r"(?s)when\(a > 0\)\.then\(1\) is no expression yet.*\.otherwise\("):
        A + when(A > 0).then(1)
    with pytest.raises(UserError, match=r"(?s)when\(a > 0\) is no expression yet.*\.then\("):
        A + when(A > 0)

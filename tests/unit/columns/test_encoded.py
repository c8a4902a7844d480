"""Does a dictionary-encoded column give the same as a plain one, and is each of its values looked at once?"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from cutwater.columns.cases import when
from cutwater.columns.encoded import each_value_once
from cutwater.columns.expressions import Column, col

TEXTS = ["a", "b", None, "a", "Ab"]
WORD, OTHER = col("word"), col("other")
EXPRESSIONS = [
    WORD == "a",
    WORD != "a",
    WORD > "a",
    "a" <= WORD,  # noqa: SIM300 (the constant on the left is meant)
    WORD == OTHER,
    WORD.is_in(["a", "x"]),
    WORD.is_null(),
    WORD.is_valid(),
    WORD.fill_null("none"),
    WORD.fill_null(OTHER),
    WORD + OTHER,
    WORD + "!",
    WORD.upper(),
    WORD.length(),
    WORD.contains("b"),
    WORD.starts_with("A"),
    WORD.ends_with("b"),
    WORD.substring(0, 1),
    WORD.between("a", "az"),
    WORD.cast("string"),
    WORD.apply(lambda array: array.is_valid()),
    when(WORD == "a").then(WORD).otherwise(OTHER),
    when(WORD == "a").then(WORD).otherwise("x"),
]

plain = pa.record_batch({"word": TEXTS, "other": ["a", "a", "c", None, "d"]})
encoded = pa.record_batch({name: plain[name].dictionary_encode() for name in plain.schema.names})
viewed = pa.record_batch({name: plain[name].cast(pa.string_view()) for name in plain.schema.names})
with_null_inside = pa.record_batch(
    {
        "word": pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 0, 3], pa.int8()), ["a", "b", None, "Ab"]),
        "other": encoded["other"],
    }
)


@pytest.mark.parametrize("batch", [encoded, viewed, with_null_inside], ids=["encoded", "viewed", "null inside"])
@pytest.mark.parametrize("expression", EXPRESSIONS, ids=repr)
def test_encoded_texts_give_what_plain_ones_give(expression: Column, batch: pa.RecordBatch) -> None:
    array = expression.evaluate(batch)
    assert array.to_pylist() == expression.evaluate(plain).to_pylist()
    assert array.type == expression.check(batch.schema, where="test")


@pytest.mark.parametrize("expression", EXPRESSIONS, ids=repr)
def test_a_short_slice_of_a_long_dictionary_gives_what_plain_texts_give(expression: Column) -> None:
    assert expression.evaluate(encoded.slice(3, 2)).to_pylist() == expression.evaluate(plain.slice(3, 2)).to_pylist()


def test_a_column_that_is_passed_on_stays_encoded() -> None:
    assert WORD.alias("w").evaluate(encoded).equals(encoded["word"])


def test_numbers_can_be_encoded_too() -> None:
    batch = pa.record_batch({"n": pa.array([1, 2, 1, None]).dictionary_encode()})
    assert (col("n") * 2 > 2).evaluate(batch).to_pylist() == [False, True, False, None]


@pytest.mark.parametrize("array", [encoded["word"], encoded["word"].drop_null()], ids=["nulls", "no nulls"])
def test_the_function_sees_the_dictionary_instead_of_the_rows(array: Any) -> None:
    seen: list[Any] = []

    def is_long(values: Any) -> Any:
        seen.append(values.to_pylist())
        return pa.array([len(value) > 1 for value in values.to_pylist()])

    assert each_value_once(is_long, array).to_pylist() == [text and len(text) > 1 for text in array.to_pylist()]
    assert seen == [["a", "b", "Ab"]]

"""What looks right and isn't, on typed streams: it is right, or refused on the line that causes it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import cutwater as cw
from cutwater.errors import ConfigurationError, JobFailedError, KeyTypeError, SchemaError, UserError, UserFunctionError
from cutwater.testing.harness import LocalLauncher

SCHEMA = pa.schema([("k", pa.string()), ("name", pa.string()), ("x", pa.float64())])
NAN = float("nan")


def environment(parallelism: int = 2) -> cw.Environment:
    return cw.Environment(parallelism=parallelism, launcher=LocalLauncher(), restart=cw.restart.none())


def typed(*rows: tuple[Any, ...], schema: pa.Schema = SCHEMA) -> cw.DataStream:
    return environment().from_collection(list(rows)).with_schema(schema)


def cause_of(failed: BaseException) -> BaseException:
    while failed.__cause__ is not None:
        failed = failed.__cause__
    return failed


# Keys.


@pytest.mark.parametrize(
    "use",
    [
        lambda stream: stream.key_by("kye"),
        lambda stream: stream.key_by("k", "kye"),
        lambda stream: stream.lookup(stream.broadcast(), key="kye", on="k", time="latest", select=max),
        lambda stream: stream.lookup(stream.broadcast(), key="k", on="kye", time="latest", select=max),
    ],
    ids=["alone", "one of two", "lookup", "lookup on"],
)
def test_a_key_column_that_is_not_there_is_refused_whatever_follows(use: Callable[[cw.DataStream], Any]) -> None:
    with pytest.raises(UserError, match='no column "kye"'):
        use(typed(("a", "n", 1.0)))


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.int64()), pa.struct([("a", pa.int64())]), pa.map_(pa.string(), pa.int64())]
)
def test_a_nested_column_is_refused_as_a_key(kind: pa.DataType) -> None:
    with pytest.raises(KeyTypeError, match='"x" can\'t be a key'):
        typed(schema=pa.schema([("k", pa.string()), ("x", kind)])).key_by("k", "x")


def test_a_key_that_can_not_be_hashed_is_named_by_the_sender_too() -> None:
    stream = environment().from_collection([("a", [1, 2])]).key_by(lambda row: row[1])
    with pytest.raises((KeyTypeError, JobFailedError)) as caught:
        stream.count().execute_and_collect()
    assert "can't be a key" in str(cause_of(caught.value))


def with_dictionary(values: list[str | None], codes: list[int]) -> cw.DataStream:
    kind = pa.dictionary(pa.int32(), pa.string())
    schema = pa.schema([("k", kind), ("x", pa.int64())])
    column = pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(values, pa.string()))
    batch = pa.RecordBatch.from_arrays([column, pa.array([10**n for n in range(len(codes))])], schema=schema)
    return environment().from_collection([0]).map_batches(lambda _: batch, schema=schema)


@pytest.mark.parametrize("update", ["record", "batch", "1s"])
def test_a_null_in_the_dictionary_of_a_key_is_a_null(update: Any) -> None:
    keyed = with_dictionary(["a", None, ""], [0, 1, 2]).key_by("k")
    with pytest.raises((KeyTypeError, JobFailedError)) as caught:
        keyed.sum("x", update=update).execute_and_collect()
    assert "has no key" in str(cause_of(caught.value))


@pytest.mark.parametrize("update", ["recrod", "1", 1000, None])
@pytest.mark.parametrize(
    "aggregated",
    [
        lambda keyed, update: keyed.count(update=update),
        lambda keyed, update: keyed.aggregate(n=cw.agg.count(), update=update),
        lambda keyed, update: keyed.reduce(max, update=update),
    ],
    ids=["count", "aggregate", "reduce"],
)
def test_an_update_that_is_neither_a_word_nor_a_duration_is_refused(
    aggregated: Callable[[cw.KeyedStream, Any], cw.DataStream], update: Any
) -> None:
    keyed = environment().from_collection(["a"]).key_by(str)
    with pytest.raises(ConfigurationError, match=f"update can't be {update!r}"):
        aggregated(keyed, update)


@pytest.mark.parametrize("update", ["record", "batch", "1s"])
def test_the_hint_about_null_keys_helps(update: Any) -> None:
    stream = with_dictionary(["a", None, "", "a"], [0, 1, 2, 3]).filter(cw.col("k").is_valid())
    rows = stream.key_by("k").sum("x", update=update).execute_and_collect()
    assert {tuple(row) for row in rows} >= {("a", 1001), ("", 100)}


def test_moments_in_the_hour_that_autumn_repeats_are_different_keys() -> None:
    first = datetime(2024, 10, 27, 0, 30, tzinfo=UTC)  # 02:30 in Berlin, and an hour later once more
    schema = pa.schema([("t", pa.timestamp("us", "Europe/Berlin")), ("x", pa.decimal128(5))])
    rows = [(first + timedelta(hours=hour), Decimal(1)) for hour in (0, 1, 0)]
    keyed = typed(*rows, schema=schema).key_by("t")
    on_columns = keyed.count().execute_and_collect()
    on_values = keyed.sum("x").execute_and_collect()  # decimals are summed in Python
    assert sorted(count for _, count in on_columns) == [1, 1, 2]
    assert sorted(on_values) == [(first, 1), (first, 2), (first + timedelta(hours=1), 1)]


def test_keys_of_views_are_keys_like_others() -> None:
    schema = pa.schema([("k", pa.string_view()), ("v", pa.struct([("s", pa.binary_view())]))])
    stream = typed(("a", {"s": b"1"}), ("b", {"s": b"2"}), ("a", {"s": b"3"}), schema=schema)
    assert sorted(stream.key_by("k").count().execute_and_collect()) == [("a", 1), ("a", 2), ("b", 1)]
    assert max(stream.key_by("k").count(update="batch").execute_and_collect()) == ("b", 1)
    last = stream.key_by("k").reduce(lambda one, other: other).execute_and_collect()
    assert sorted(row.v["s"] for row in last) == [b"1", b"2", b"3"]
    assert len(stream.filter(cw.col("k") == "a").execute_and_collect()) == 2
    assert len(stream.filter(lambda row: row.k == "a").execute_and_collect()) == 2


@pytest.mark.parametrize("key", ["x", lambda row: row.x], ids=["column", "function"])
def test_a_nan_is_no_key(key: Any) -> None:
    with pytest.raises((KeyTypeError, JobFailedError)) as caught:
        typed(("a", "n", NAN)).key_by(key).count().execute_and_collect()
    assert "NaN can't be a key" in str(cause_of(caught.value))


def test_both_zeros_are_one_key() -> None:
    rows = typed(("a", "n", 0.0), ("a", "n", -0.0)).key_by("x").count().execute_and_collect()
    assert [count for _, count in rows] == [1, 2]


# Values.


@pytest.mark.parametrize("order", [[NAN, 5.0, 7.0], [5.0, 7.0, NAN], [5.0, NAN, 7.0]])
@pytest.mark.parametrize("update", ["record", "batch", "1s"])
@pytest.mark.parametrize("on_columns", [True, False])
def test_a_nan_is_larger_than_any_number_in_whatever_order(order: list[float], update: Any, on_columns: bool) -> None:
    stream = typed(*(("a", "n", value) for value in order))
    keyed = stream.key_by("k") if on_columns else stream.key_by(lambda row: row.k)
    last = keyed.aggregate(low=cw.agg.min("x"), high=cw.agg.max("x"), update=update).execute_and_collect()[-1]
    assert last.low == 5.0
    assert np.isnan(last.high)
    assert keyed.min("x", update=update).execute_and_collect()[-1][1] == 5.0
    assert np.isnan(keyed.max("x", update=update).execute_and_collect()[-1][1])


def test_of_nans_alone_the_smallest_is_one() -> None:
    (row,) = typed(("a", "n", NAN)).key_by("k").min("x").execute_and_collect()
    assert np.isnan(row.min)


@pytest.mark.parametrize(
    "use",
    [
        lambda keyed: keyed.sum("name"),
        lambda keyed: keyed.mean("name"),
        lambda keyed: keyed.aggregate(total=cw.agg.sum("name")),
        lambda keyed: keyed.window(cw.count_window(2)).sum("name"),
        lambda keyed: keyed.window(cw.count_window(2)).aggregate(total=cw.agg.mean("name")),
    ],
)
@pytest.mark.parametrize("key", ["k", lambda row: row.k], ids=["column", "function"])
def test_a_sum_of_a_column_of_texts_is_refused_where_it_is_written(use: Any, key: Any) -> None:
    with pytest.raises(UserError, match="needs numbers"):
        use(typed(("a", "n", 1.0)).key_by(key))


@pytest.mark.parametrize(
    "use", [lambda keyed: keyed.sum(1), lambda keyed: keyed.aggregate(total=cw.agg.sum(1))], ids=["sum", "aggregate"]
)
def test_a_sum_of_texts_fails_instead_of_joining_them(use: Any) -> None:
    stream = environment().from_collection([("a", "5"), ("a", "3")]).key_by(lambda row: row[0])
    with pytest.raises((UserFunctionError, JobFailedError)) as caught:
        use(stream).execute_and_collect()
    assert "can't be summed" in str(cause_of(caught.value))


# Schemas.


def promised(batch: pa.RecordBatch, schema: pa.Schema) -> list[Any]:
    return environment(1).from_collection([0]).map_batches(lambda _: batch, schema=schema).execute_and_collect()


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ({"a": [1], "b": ["x"], "c": [2]}, '"c" was not promised'),
        ({"a": [1]}, '"b" is missing'),
        ({"a": [1.0], "b": ["x"]}, '"a" is double, not int64'),
        ({"a": [1], "b": [2]}, '"b" is int64, not string'),
        ({"a": ["1"], "b": ["x"]}, '"a" is string, not int64'),
    ],
)
def test_a_batch_that_breaks_its_promise_is_refused_instead_of_cast(columns: dict[str, Any], problem: str) -> None:
    schema = pa.schema([("a", pa.int64()), ("b", pa.string())])
    with pytest.raises((SchemaError, JobFailedError)) as caught:
        promised(pa.RecordBatch.from_pydict(columns), schema)
    assert problem in str(cause_of(caught.value))


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["x"], pa.large_string()),
        pa.array(["x"], pa.string_view()),
        pa.array(["x"]).dictionary_encode(),
        pa.array([None]),
    ],
    ids=lambda column: str(column.type),
)
def test_the_order_of_columns_and_the_layout_of_texts_break_no_promise(column: pa.Array) -> None:
    schema = pa.schema([("a", pa.int64()), ("b", pa.string())])
    batch = pa.RecordBatch.from_arrays([column, pa.array([1])], ["b", "a"])
    assert promised(batch, schema) == [(1, column.to_pylist()[0])]


# Collections.

FRAME = {"a": [1, 2, 1], "b": ["x", "y", "z"]}


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame(FRAME, index=[7, 8, 9]),
        pa.table(FRAME),
        pa.RecordBatch.from_pydict(FRAME),
        pa.table({"a": FRAME["a"], "b": pa.chunked_array([["x"], ["y", "z"]], pa.string_view())}),
    ],
    ids=["pandas", "table", "batch", "views"],
)
def test_a_collection_that_is_a_table_gives_its_rows_typed(table: Any) -> None:
    stream = environment(1).from_collection(table)
    assert stream.schema == pa.schema([("a", pa.int64()), ("b", pa.string())])
    assert stream.execute_and_collect() == [(1, "x"), (2, "y"), (1, "z")]
    assert stream.key_by("a").count().execute_and_collect() == [(1, 1), (2, 1), (1, 2)]


def test_a_frame_of_another_library_is_taken_by_arrows_protocol() -> None:
    class DataFrame:
        def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
            return pa.table(FRAME).__arrow_c_stream__(requested_schema)

    assert environment(1).from_collection(DataFrame()).execute_and_collect()[0] == (1, "x")


@pytest.mark.parametrize("values", ["abc", b"abc", {"a": 1}])
def test_what_would_be_taken_apart_is_refused_as_a_collection(values: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"take a .* apart"):
        environment().from_collection(values)

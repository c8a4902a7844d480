"""A job restored in a program whose aggregates have changed: right, or refused with the reason, before any record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import cutwater as cw
from cutwater.api.keyed import KeyedStream
from cutwater.errors import SerializationError
from cutwater.testing.harness import LocalLauncher

SCHEMA = pa.schema([("k", pa.string()), ("day", pa.int32()), ("cents", pa.int64()), ("grams", pa.int64())])
Write = Callable[[KeyedStream], cw.DataStream]


def sums(*names: str, **settings: Any) -> Write:
    return lambda keyed: keyed.aggregate(uid="totals", **{name: cw.agg.sum(name) for name in names}, **settings)


class Programs:
    """Runs of one job on the same snapshots: each reads one record and goes on from the run before."""

    def __init__(self, *, typed: bool, backend: str = "memory", keys: tuple[str, ...] = ("k",)) -> None:
        self._launcher = LocalLauncher()
        self._typed = typed
        self._backend = backend
        self.keys = keys
        self.schema = SCHEMA
        self._runs = 0
        self._collected = 0

    def run(self, row: tuple[Any, ...], write: Write, *, typed: bool | None = None, drop: bool = False) -> list[Any]:
        """What came out in this run."""
        self._runs += 1
        env = cw.Environment(
            launcher=self._launcher,
            checkpoints=cw.Checkpoints(every="1s", storage="simulated"),
            state_backend=self._backend,
        )
        records = [dict(zip(SCHEMA.names, row, strict=True))]
        stream = env.from_collection(records, uid=f"source-{self._runs}")
        if self._typed if typed is None else typed:
            stream = stream.with_schema(self.schema, uid="typed")
        out = cw.sinks.collect()
        write(stream.key_by(*self.keys)).sink_to(out, uid="out")
        env.execute("totals", restore=None if self._runs == 1 else "latest", allow_non_restored_state=drop)
        rows = list(out.collected)  # those of earlier runs first: the sink restores them
        new, self._collected = rows[self._collected :], len(rows)
        return new

    def refused(self, write: Write, **options: Any) -> str:
        with pytest.raises(SerializationError) as caught:
            self.run(("a", 1, 1, 1), write, **options)
        return str(caught.value)


BOTH = pytest.mark.parametrize("typed", [True, False], ids=["columns", "values"])


@BOTH
@pytest.mark.parametrize("update", ["record", "batch", "1s"])
def test_aggregates_in_another_order_keep_their_state(typed: bool, update: str) -> None:
    programs = Programs(typed=typed)
    programs.run(("a", 1, 100, 5), sums("cents", "grams", update=update))
    (row,) = programs.run(("a", 1, 1, 1), sums("grams", "cents", update=update))
    assert (row.grams, row.cents) == (6, 101)


@BOTH
def test_aggregates_that_exchange_their_names_keep_what_they_aggregate_or_are_refused(typed: bool) -> None:
    programs = Programs(typed=typed)
    programs.run(("a", 1, 100, 5), sums("cents", "grams"))

    def exchanged(keyed: KeyedStream) -> cw.DataStream:
        return keyed.aggregate(cents=cw.agg.sum("grams"), grams=cw.agg.sum("cents"), uid="totals")

    if typed:
        (row,) = programs.run(("a", 1, 1, 1), exchanged)
        assert (row.cents, row.grams) == (6, 101)
    else:
        assert '"cents" in the state' in programs.refused(exchanged)


@BOTH
def test_another_column_is_refused_instead_of_going_on_with_the_old_sum(typed: bool) -> None:
    programs = Programs(typed=typed)
    programs.run(("a", 1, 100, 5), lambda keyed: keyed.sum("cents", uid="totals"))
    assert "cents" in programs.refused(lambda keyed: keyed.sum("grams", uid="totals"))


@BOTH
def test_another_aggregate_of_the_same_column_is_refused(typed: bool) -> None:
    programs = Programs(typed=typed)
    programs.run(("a", 1, 100, 5), lambda keyed: keyed.min("cents", uid="totals"))
    assert "max" in programs.refused(lambda keyed: keyed.max("cents", uid="totals"))


@BOTH
def test_a_new_aggregate_is_refused_by_its_name(typed: bool) -> None:
    programs = Programs(typed=typed)
    programs.run(("a", 1, 100, 5), sums("cents"))
    assert "grams" in programs.refused(sums("grams", "cents")).partition("\n")[0]


@BOTH
def test_an_aggregate_that_went_is_refused_by_its_name(typed: bool) -> None:
    programs = Programs(typed=typed)
    programs.run(("a", 1, 100, 5), sums("cents", "grams"))
    assert "grams" in programs.refused(sums("cents")).partition("\n")[0]


def test_the_state_of_an_aggregate_that_went_can_be_dropped() -> None:
    programs = Programs(typed=True)
    programs.run(("a", 1, 100, 5), sums("grams", "cents"))
    (row,) = programs.run(("a", 1, 1, 1), sums("cents"), drop=True)
    assert row.cents == 101


def test_aggregates_of_values_can_not_lose_one_of_them() -> None:
    programs = Programs(typed=False)
    programs.run(("a", 1, 100, 5), sums("cents", "grams"))
    assert "allow_non_restored_state" not in programs.refused(sums("cents"), drop=True)


def test_state_in_a_database_is_told_apart_too() -> None:
    programs = Programs(typed=False, backend="rocksdb")
    programs.run(("a", 1, 100, 5), sums("cents", "grams"))
    (row,) = programs.run(("a", 1, 1, 1), sums("grams", "cents"))
    assert (row.grams, row.cents) == (6, 101)
    assert "grams" in programs.refused(sums("cents"))


def test_a_mean_and_a_sum_of_one_column_keep_apart() -> None:
    programs = Programs(typed=True)
    programs.run(
        ("a", 1, 2**60, 5), lambda keyed: keyed.aggregate(m=cw.agg.mean("cents"), s=cw.agg.sum("cents"), uid="totals")
    )
    (row,) = programs.run(
        ("a", 1, 1, 1), lambda keyed: keyed.aggregate(s=cw.agg.sum("cents"), m=cw.agg.mean("cents"), uid="totals")
    )
    assert (row.s, row.m) == (2**60 + 1, (2**60 + 1) / 2)


@pytest.mark.parametrize("keys", [("day", "k"), ("k",), ("k", "cents")], ids=["turned", "fewer", "another"])
def test_other_key_columns_are_refused_even_if_state_may_be_dropped(keys: tuple[str, ...]) -> None:
    programs = Programs(typed=True, keys=("k", "day"))
    programs.run(("a", 1, 100, 5), sums("grams"))
    programs.keys = keys
    assert '"by_' in programs.refused(sums("grams"), drop=True)


@pytest.mark.parametrize("was_typed", [True, False])
def test_state_on_columns_and_state_on_values_are_told_apart(was_typed: bool) -> None:
    programs = Programs(typed=was_typed)
    programs.run(("a", 1, 100, 5), lambda keyed: keyed.count(uid="totals"))
    programs.refused(lambda keyed: keyed.count(uid="totals"), typed=not was_typed)


@BOTH
def test_aggregates_that_became_a_function_are_refused(typed: bool) -> None:
    programs = Programs(typed=typed)
    programs.run(("a", 1, 100, 5), sums("cents"))
    assert "of another kind" in programs.refused(lambda keyed: keyed.reduce(lambda one, other: other, uid="totals"))


WIDER = pa.schema([("k", pa.large_string()), ("day", pa.int64()), ("cents", pa.int64()), ("grams", pa.int64())])


def test_wider_integers_and_another_layout_of_texts_are_the_same_columns() -> None:
    programs = Programs(typed=True, keys=("k", "day"))
    write: Write = lambda keyed: keyed.aggregate(uid="totals", low=cw.agg.min("day"), n=cw.agg.count())  # noqa: E731
    programs.run(("a", 1, 100, 5), write)
    programs.schema = WIDER
    (row,) = programs.run(("a", 1, 1, 1), write)
    assert (row.low, row.n) == (1, 2)

"""Is one record refused where several are meant, with the line of the function that returned it?"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

import cutwater as cw
from cutwater.errors import JobFailedError
from cutwater.testing.harness import LocalLauncher

Pair = namedtuple("Pair", "word n")


def stream() -> cw.DataStream:
    return cw.Environment(launcher=LocalLauncher()).from_collection(["a b", "c"])


def returns_text(record: str, context: Any = None) -> Any:
    return record.upper()


def returns_a_dict(record: str, context: Any = None) -> Any:
    return {"word": record}


def returns_a_row(record: str, context: Any = None) -> Any:
    return Pair(record, 1)


def returns_a_table(record: str, context: Any = None) -> Any:
    return pa.table({"word": [record]})


def returns_bytes_at_last(record: str, context: Any = None) -> Any:
    return [record] if record == "a b" else b"c"


class OnTimer:
    def process(self, record: str, context: Any) -> None:
        context.register_event_timer(1)

    def on_timer(self, time_ms: int, context: Any) -> str:
        return "late"


def windowed(key: Any, records: list[Any], context: Any) -> str:
    return "result"


FUNCTIONS = (returns_text, returns_a_dict, returns_a_row, returns_a_table, returns_bytes_at_last)


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("operation", ["flat_map", "process"])
def test_one_record_is_not_taken_apart(operation: str, function: Callable[..., Any]) -> None:
    with pytest.raises(JobFailedError, match=r"not an iterable of records") as raised:
        getattr(stream(), operation)(function).execute_and_collect()
    assert function.__name__ in str(raised.value)
    assert f"test_spreading.py:{function.__code__.co_firstlineno}" in str(raised.value.__cause__)
    assert "return [record]" in str(raised.value.__cause__)


def test_nor_by_a_keyed_function() -> None:
    with pytest.raises(JobFailedError, match=r"returned a str, not an iterable of records"):
        stream().key_by(lambda _: 1).process(returns_text).execute_and_collect()


def test_nor_by_one_with_event_time() -> None:
    timed = stream().assign_timestamps(lambda _: 1, cw.watermarks.monotonous())
    for operation in ("flat_map", "process"):
        with pytest.raises(JobFailedError, match=r"returned a str, not an iterable of records"):
            getattr(timed, operation)(returns_text).execute_and_collect()


def test_nor_on_a_timer() -> None:
    timed = stream().assign_timestamps(lambda _: 1, cw.watermarks.monotonous()).key_by(lambda _: 1)
    with pytest.raises(JobFailedError, match=r"OnTimer.on_timer.* returned a str, not an iterable of records"):
        timed.process(OnTimer()).execute_and_collect()


def test_nor_by_a_window_function() -> None:
    windows = stream().key_by(lambda _: 1).window(cw.count_window(2))
    with pytest.raises(JobFailedError, match=r"windowed.* returned a str, not an iterable of records"):
        windows.process(windowed).execute_and_collect()


def test_iterables_of_every_kind_are_spread() -> None:
    def of_every_kind(record: str) -> Any:
        return record.split() if " " in record else iter((record,))

    def yields(record: str, context: Any) -> Iterator[str]:
        yield record

    assert stream().flat_map(of_every_kind).process(yields).execute_and_collect() == ["a", "b", "c"]

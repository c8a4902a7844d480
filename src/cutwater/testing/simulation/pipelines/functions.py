"""What do the functions of drawn pipelines do?

They are written as users write them, some of them in place. Each asks the run whether its time has come to fail.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from cutwater.dead_letters import DeadLetter
from cutwater.state.ttl import Ttl
from cutwater.testing.simulation import registry
from cutwater.testing.simulation.pipelines.rows import Row, plain, row_of

COPIES = 3


def touch(where: str) -> None:
    registry.current().touch(where)


# One record at a time.


def to_dict(record: Any) -> dict[str, Any]:
    return row_of(record)._asdict()


def everything(record: Any) -> bool:
    return True


def doubled(record: Any) -> dict[str, Any]:
    touch("doubled")
    row = row_of(record)
    return row._replace(v=2 * row.v + 1)._asdict()


def doubled_in_place(record: dict[str, Any]) -> dict[str, Any]:
    touch("doubled in place")
    record["v"] = 2 * record["v"] + 1
    return record


def doubled_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    touch("doubled batch")
    position = batch.schema.get_field_index("v")
    column = pc.add(pc.multiply(batch.column("v"), 2), 1)
    return batch.set_column(position, batch.schema.field("v"), column)


class Unready(Exception):
    """Ask again."""


class Asked:
    """Doubles rows, some of them sooner than others; every third attempt is in vain."""

    async def open(self, context: Any) -> None:
        self._attempts = 0

    async def process(self, record: Any) -> dict[str, Any]:
        touch("asked")
        self._attempts += 1
        if self._attempts % 3 == 0:
            raise Unready
        row = row_of(record)
        await asyncio.sleep(row.v % 5 / 1000)
        return row._replace(v=2 * row.v + 1)._asdict()

    async def close(self) -> None:
        del self._attempts


def is_kept(record: Any) -> bool:
    touch("filter")
    return row_of(record).v % 3 != 0


def copies(record: Any) -> Iterator[dict[str, Any]]:
    touch("copies")
    row = row_of(record)
    for copy in range(row.v % COPIES):
        yield row._replace(n=row.n * COPIES + copy)._asdict()


def changed_in_place(record: dict[str, Any]) -> dict[str, Any]:
    """One branch of a stream; the other must not see it."""
    touch("changed in place")
    record["n"] *= 2
    record["v"] += 1000
    return record


def copied(record: dict[str, Any]) -> dict[str, Any]:
    touch("copied")
    return {**record, "n": record["n"] * 2 + 1}


class OddAside:
    """Odd values leave by a side output."""

    def process(self, record: Any, context: Any) -> Any:
        touch("odd aside")
        row = row_of(record)
        if row.v % 2:
            context.side_output("odd", row._asdict())
        else:
            yield row._asdict()


# Some records fail, always the same ones, and the job goes on. These functions don't ask the run: its failures would be
# taken for those of a record.


def fails(row: Row) -> bool:
    return row.v % 4 == 3


def risky_row(record: Any) -> dict[str, Any]:
    row = row_of(record)
    if isinstance(record, dict):
        record["n"] = -1  # which a dead letter must not show
    if fails(row):
        raise ValueError(f"{row.v} is too much")
    return row._asdict()


async def risky_answer(record: Any) -> dict[str, Any]:
    return risky_row(record)


def risky_rows(record: Any) -> Iterator[dict[str, Any]]:
    """Fails behind its first output."""
    row = row_of(record)
    yield row._asdict()
    risky_row(record)


def risky_condition(record: Any) -> bool:
    return bool(risky_row(dict(record)))  # of a copy: the record itself goes on


class Risky:
    """Fails behind an output and a side output."""

    def process(self, record: Any, context: Any) -> None:
        row = row_of(record)
        context.emit(row._replace(n=row.n * 2)._asdict())
        context.side_output("beside", row._replace(n=row.n * 2 + 1)._asdict())
        risky_row(record)


def letter_row(letter: DeadLetter) -> dict[str, Any]:
    touch("letter")
    row = row_of(letter.record)
    assert letter.error == f"ValueError: {row.v} is too much", letter
    return row._replace(v=5 * row.v)._asdict()


def doubled_letter_row(letter: DeadLetter) -> dict[str, Any]:
    row = row_of(letter_row(letter))
    return row._replace(n=row.n * 2)._asdict()


# By key.


def added_in_place(total: dict[str, Any], record: dict[str, Any]) -> dict[str, Any]:
    """Reduces, and returns the accumulator that it has changed. `c` counts; a record without it counts for one."""
    touch("added in place")
    total["c"] = total.get("c", 1) + record.get("c", 1)
    total["v"] += record["v"]
    return total


class TotalInPlace:
    """An aggregate whose accumulator is its result."""

    def create_accumulator(self) -> dict[str, int]:
        return {"c": 0, "v": 0}

    def add(self, record: Any, accumulator: dict[str, int]) -> dict[str, int]:
        touch("total in place")
        accumulator["c"] += 1
        accumulator["v"] += row_of(record).v
        return accumulator

    def get_result(self, accumulator: dict[str, int]) -> dict[str, int]:
        return accumulator

    def merge(self, one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
        one["c"] += other["c"]
        one["v"] += other["v"]
        return one


class Remember:
    """Keeps every value of a key in a list and its sum in a value; hands out the list as it is."""

    def __init__(self, ttl: Ttl | None) -> None:
        self._ttl = ttl

    def open(self, context: Any) -> None:
        self._total = context.value_state("total", 0, ttl=self._ttl)
        self._values = context.list_state("values", ttl=self._ttl)

    def process(self, record: Any, context: Any) -> Any:
        touch("remember")
        row = row_of(record)
        self._values.add(row.v)
        self._total.update(self._total.value() + row.v)
        yield row.k, self._total.value(), self._values.get()


class Tally:
    """Counts the remainders of a key in a map."""

    def __init__(self, ttl: Ttl | None) -> None:
        self._ttl = ttl

    def open(self, context: Any) -> None:
        self._counts = context.map_state("counts", ttl=self._ttl)

    def process(self, record: Any, context: Any) -> Any:
        touch("tally")
        row = row_of(record)
        seen = self._counts.get(row.v % 3, 0) + 1
        self._counts.put(row.v % 3, seen)
        yield row.k, row.v % 3, seen


class Fold:
    """Reducing and aggregating state."""

    def open(self, context: Any) -> None:
        self._sum = context.reducing_state("sum", lambda one, other: one + other)
        self._total = context.aggregating_state("total", TotalInPlace())

    def process(self, record: Any, context: Any) -> Any:
        touch("fold")
        row = row_of(record)
        self._sum.add(row.v)
        self._total.add(record)
        yield row.k, self._sum.get(), self._total.get()


class Alarm:
    """Rings some time after each record, by event time: once for all records of a key at one time."""

    def __init__(self, after_ms: int) -> None:
        self._after_ms = after_ms

    def process(self, record: Any, context: Any) -> Any:
        touch("alarm")
        context.register_event_timer(context.timestamp_ms + self._after_ms)
        return ()

    def on_timer(self, time_ms: int, context: Any) -> Any:
        touch("alarm rings")
        yield Row(context.current_key, 0, 1, time_ms)._asdict()


class Later:
    """Puts every record out when the wall clock has gone on a little; timers that are open at the end never ring."""

    def __init__(self, after_ms: int) -> None:
        self._after_ms = after_ms

    def open(self, context: Any) -> None:
        self._waiting = context.list_state("waiting")

    def process(self, record: Any, context: Any) -> Any:
        touch("later")
        self._waiting.add(tuple(row_of(record)))
        context.register_processing_timer(context.processing_time_ms + self._after_ms)
        return ()

    def on_timer(self, time_ms: int, context: Any) -> Any:
        touch("later rings")
        waiting = list(self._waiting.get())
        self._waiting.clear()
        yield from waiting


class Repeat:
    """Puts every record out again, and counts it."""

    def open(self, context: Any) -> None:
        self._seen = context.value_state("seen", 0)

    def process(self, record: Any, context: Any) -> Any:
        touch("repeat")
        self._seen.update(self._seen.value() + 1)
        yield record


def without_time(record: Any) -> dict[str, Any]:
    return row_of(record)._replace(t=0)._asdict()


def counted_row(result: Any) -> dict[str, Any]:
    key, count = result
    return Row(key, count, count, 0)._asdict()


# In windows. Every result is (key, start, end, count, sum).


def window_total(key: Any, records: Sequence[Any], context: Any) -> Any:
    touch("window total")
    rows = [row_of(record) for record in records]
    yield key, *window_bounds(context), len(rows), sum(row.v for row in rows)


def reduced_window(key: Any, totals: Sequence[Any], context: Any) -> Any:
    touch("reduced window")
    (total,) = totals
    yield key, *window_bounds(context), total.get("c", 1), total["v"]


def window_bounds(context: Any) -> tuple[int, int]:
    window = context.window
    return getattr(window, "start_ms", 0), getattr(window, "end_ms", 0)


def window_result(result: Any) -> tuple[Any, int, int, int, int]:
    """Of a row that the engine made, or of what the functions above give."""
    if not hasattr(result, "_fields"):
        made: tuple[Any, int, int, int, int] = result
        return made
    bounds = [plain(getattr(result, name, 0)) for name in ("window_start", "window_end")]
    total = result.result if hasattr(result, "result") else {"c": result.c, "v": result.v}
    return result[0], bounds[0], bounds[1], total["c"], total["v"]


def window_row(result: Any) -> dict[str, Any]:
    """One row of a window's result, at the window's last moment."""
    key, start, end, count, total = window_result(result)
    return Row(key, start * 1000 + count, total, end - 1)._asdict()


def as_pair(result: Any) -> tuple[Any, Any]:
    key, value = result
    return key, value


def tagged_result(result: Any) -> tuple[Any, ...]:
    return "window", *window_result(result)


def tagged_late(record: Any) -> tuple[Any, ...]:
    row = row_of(record)
    return "late", *row


def marked_late(record: Any) -> dict[str, Any]:
    """A row that no model expects."""
    return row_of(record)._replace(n=-1)._asdict()


# Two streams.


class Both:
    """Counts the records of each side of a key."""

    def open(self, context: Any) -> None:
        self._counts = context.map_state("sides")

    def process1(self, record: Any, context: Any) -> Any:
        return self._counted(record, 1)

    def process2(self, record: Any, context: Any) -> Any:
        return self._counted(record, 2)

    def _counted(self, record: Any, side: int) -> Any:
        touch("both")
        seen = self._counts.get(side, 0) + 1
        self._counts.put(side, seen)
        row = row_of(record)
        yield Row(row.k, seen, side, row.t)._asdict()


class Learn:
    """Every task learns every rule, and one tells of it; records are counted by key."""

    def open(self, context: Any) -> None:
        self._seen = context.value_state("seen", 0)

    def process(self, record: Any, context: Any) -> Any:
        touch("learn")
        self._seen.update(self._seen.value() + 1)
        row = row_of(record)
        yield row._replace(n=self._seen.value(), v=0)._asdict()

    def process_broadcast(self, record: Any, context: Any) -> Any:
        touch("learn a rule")
        row = row_of(record)
        times = context.broadcast_state[row.n] = context.broadcast_state.get(row.n, 0) + 1
        if times > 1 or context.subtask == 0:
            yield Row(row.k, row.n, -times, row.t)._asdict()


class Pair:
    """Makes one row of two; its time is that of the pair."""

    def __init__(self, window_ms: int | None) -> None:
        self._window_ms = window_ms

    def __call__(self, left: Any, right: Any) -> dict[str, Any]:
        touch("pair")
        one = None if left is None else row_of(left)
        other = None if right is None else row_of(right)
        return paired(one, other, self._window_ms)._asdict()


class PairTime:
    """The time of a pair that was made of columns."""

    def __init__(self, window_ms: int | None) -> None:
        self._window_ms = window_ms

    def __call__(self, pair: Any) -> dict[str, Any]:
        touch("pair time")
        time = paired_time(max(pair.t, pair.t_right), self._window_ms)
        return Row(pair.k, pair.n, pair.v, time)._asdict()


class Version:
    """A row with the version that was valid at its time."""

    def __call__(self, record: Any, version: Any) -> dict[str, Any]:
        touch("version")
        return versioned(row_of(record), None if version is None else row_of(version))._asdict()


def paired(left: Row | None, right: Row | None, window_ms: int | None) -> Row:
    """The row of a pair; None stands for a side without a partner."""
    some = [row for row in (left, right) if row is not None]
    time = paired_time(max(row.t for row in some), window_ms)
    numbers = [0 if row is None else row.n + 1 for row in (left, right)]
    return Row(some[0].k, numbers[0] * 10_000 + numbers[1], sum(row.v for row in some), time)


def paired_time(latest_ms: int, window_ms: int | None) -> int:
    return latest_ms if window_ms is None else latest_ms // window_ms * window_ms + window_ms - 1


def versioned(row: Row, version: Row | None) -> Row:
    return row._replace(v=row.v * 10_000 + (0 if version is None else version.n + 1))

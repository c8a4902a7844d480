"""`python -m benchmarks.kernels`: what runs the columnar state fastest, per row and on one core?

Three things that a keyed count does with every batch: find the slot of each row's key in a table that lives on, write
down the count after each row, and join rows of one key before they are sent. By Python's dict, NumPy, Arrow and Numba.
Seconds are those of the thread, so that a busy machine disturbs little; the best of five rounds counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import count

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.table import Table

from cutwater.state.columnar.grouping import group_rows
from cutwater.state.columnar.key_index import KeyIndex
from cutwater.state.columnar.value_columns import CountColumn

ROWS = 131_072
BATCHES = 8
ROUNDS = 5


def batches_of(keys: int, *, encoded: bool) -> list[pa.Array]:
    random = np.random.default_rng(7)
    names = pa.array([f"user_{number}" for number in range(keys)])
    made = [names.take(pa.array(random.integers(0, keys, ROWS))) for _ in range(BATCHES)]
    return [batch.dictionary_encode() for batch in made] if encoded else made


def slots_by_dict() -> Callable[[pa.Array], object]:
    known: dict[str, int] = {}
    numbers = count()

    def slots(batch: pa.Array) -> object:
        return [known[key] if key in known else known.setdefault(key, next(numbers)) for key in batch.to_pylist()]

    return slots


def slots_by_numpy() -> Callable[[pa.Array], object]:
    known = np.empty(0, dtype="U16")

    def slots(batch: pa.Array) -> object:
        nonlocal known
        values = np.asarray(batch.to_pylist(), dtype="U16")
        known = np.union1d(known, values)
        return np.searchsorted(known, values)

    return slots


def slots_by_arrow() -> Callable[[pa.Array], object]:
    known = pa.array([], type=pa.string())

    def slots(batch: pa.Array) -> object:
        nonlocal known
        distinct = pc.unique(batch)
        distinct = distinct.dictionary_decode() if isinstance(distinct, pa.DictionaryArray) else distinct
        added = distinct.filter(pc.invert(pc.is_in(distinct, value_set=known)))
        known = pa.concat_arrays([known, added])
        plain = batch.dictionary_decode() if isinstance(batch, pa.DictionaryArray) else batch
        return pc.index_in(plain, value_set=known)

    return slots


def slots_by_numba() -> Callable[[pa.Array], object]:
    index = KeyIndex([pa.string()])
    return lambda batch: index.slots_of([batch])


def counts_by_dict() -> Callable[[pa.Array], object]:
    counts: dict[str, int] = {}

    def run(batch: pa.Array) -> object:
        results = []
        for key in batch.to_pylist():
            counts[key] = number = counts.get(key, 0) + 1
            results.append(number)
        return results

    return run


def counts_by_numpy() -> Callable[[pa.Array], object]:
    """The rank of each row among those of its key: a stable sort, and where the runs begin."""
    index = KeyIndex([pa.string()])
    totals = np.zeros(1 << 21, dtype=np.int64)

    def run(batch: pa.Array) -> object:
        slots = index.slots_of([batch])
        order = np.argsort(slots, kind="stable")
        ordered = slots[order]
        starts = np.flatnonzero(np.diff(ordered, prepend=-1))
        sizes = np.diff(np.append(starts, len(ordered)))
        results = np.empty(len(slots), dtype=np.int64)
        results[order] = np.arange(len(slots)) - np.repeat(starts, sizes) + 1 + totals[ordered]
        totals[ordered[starts]] += sizes
        return results

    return run


def counts_by_numba() -> Callable[[pa.Array], object]:
    index, column = KeyIndex([pa.string()]), CountColumn()

    def run(batch: pa.Array) -> object:
        slots = index.slots_of([batch])
        column.make_room(index.count)
        return column.run(slots, None)

    return run


def groups_by_arrow() -> Callable[[pa.Array], object]:
    return lambda batch: pa.table([batch], ["key"]).group_by("key", use_threads=False).aggregate([([], "count_all")])


def groups_by_numpy() -> Callable[[pa.Array], object]:
    return lambda batch: np.unique(np.asarray(batch.to_pylist(), dtype="U16"), return_counts=True)


def groups_by_numba() -> Callable[[pa.Array], object]:
    def group(batch: pa.Array) -> object:
        groups = group_rows([batch])
        column = CountColumn()
        column.make_room(groups.count)
        column.add(groups.ids, None)
        return column.results(slice(0, groups.count))

    return group


TASKS: dict[str, dict[str, Callable[[], Callable[[pa.Array], object]]]] = {
    "slot of each key": {
        "dict": slots_by_dict,
        "NumPy": slots_by_numpy,
        "Arrow": slots_by_arrow,
        "Numba": slots_by_numba,
    },
    "running count": {"dict": counts_by_dict, "NumPy": counts_by_numpy, "Numba": counts_by_numba},
    "one row per key": {"NumPy": groups_by_numpy, "Arrow": groups_by_arrow, "Numba": groups_by_numba},
}


def nanoseconds_per_row(make: Callable[[], Callable[[pa.Array], object]], batches: list[pa.Array]) -> float:
    best = float("inf")
    for _ in range(ROUNDS):
        work = make()
        work(batches[0])  # compiled, and the table is not empty
        started = time.thread_time()
        for batch in batches:
            work(batch)
        best = min(best, time.thread_time() - started)
    return best / (ROWS * len(batches)) * 1e9


def main() -> None:
    console = Console(width=120)
    table = Table(title=f"nanoseconds per row, one core, batches of {ROWS:,} string keys, best of {ROUNDS} rounds")
    table.add_column("what")
    table.add_column("keys", justify="right")
    names = ["dict", "NumPy", "Arrow", "Numba"]
    for name in names:
        table.add_column(name, justify="right")
    for what, ways in TASKS.items():
        for keys, encoded in ((1_000, True), (1_000, False), (1_000_000, False)):
            batches = batches_of(keys, encoded=encoded)
            found = {name: nanoseconds_per_row(make, batches) for name, make in ways.items()}
            label = f"{keys:,} {'encoded' if encoded else 'plain'}"
            table.add_row(what, label, *(f"{found[name]:,.1f}" if name in found else "–" for name in names))
            console.print(f"{what}, {label}: " + ", ".join(f"{name} {value:,.1f}" for name, value in found.items()))
    console.print(table)


if __name__ == "__main__":
    main()

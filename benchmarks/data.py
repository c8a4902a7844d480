"""Which rows does every system read?

`event_time` (int64, milliseconds), `key` ("user_123"), `value` (int64): 10,000 rows for each second of event time, at
most 4 s out of order. Keys are drawn by Zipf's law with exponent 0.99, or `even`: each equally often, and none missing
as long as there are rows enough. One seed, so a data set is the same everywhere. It is made once, in chunks of at most
ten million rows (a lap), under `build/bench-data/`: eight Parquet files a lap that follow each other in time, and text
for the systems that can't read Parquet. A longer input is the same lap again under other names (hard links); where
event time matters, laps that go on in time.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
import pyarrow.parquet

from benchmarks.contract import LATENESS_MS, WINDOW_MS, Answer

FOLDER = Path("build/bench-data")
SEED = 20_240_607
ZIPF_EXPONENT = 0.99
FIRST_MS = 1_700_000_000_000
ROWS_PER_MS = 10
DISORDER_MS = 4_000
LAP_ROWS = 10_000_000
FILES_PER_LAP = 8
ROW_GROUP_ROWS = 131_072
#: Beyond this the truth about windows would take more memory than the data.
WINDOW_KEYS_MAX = 10_000

Layout = Literal["parquet", "csv", "csv_header", "csv_striped"]
"""csv_striped: two files, every other row each, like two partitions of a log: both span all of event time."""

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class DataSet:
    rows: int
    keys: int
    folder: Path

    def layout(self, layout: Layout) -> Path:
        """The folder with the files; made if it isn't there."""
        made = self.folder / layout
        if not made.exists():
            base = _base_of(self)
            if base is None:
                _publish(made, lambda folder: _as_text(self.layout("parquet"), folder, layout))
            else:
                _publish(made, lambda folder: _link_again(base.layout(layout), folder, self.rows // base.rows))
        return made.resolve()

    @property
    def truth(self) -> dict[str, Any]:
        truth: dict[str, Any] = json.loads((self.folder / "truth.json").read_text())
        return truth


def prepare(*, rows: int, keys: int, advancing: bool = False, even: bool = False, root: Path = FOLDER) -> DataSet:
    """The data set of about so many rows: beyond one lap, whole laps."""
    laps = max(1, round(rows / LAP_ROWS))
    if rows > LAP_ROWS:
        rows = laps * LAP_ROWS
    name = f"{rows}-rows-{keys}-keys" + ("-advancing" if advancing and laps > 1 else "") + ("-even" if even else "")
    data = DataSet(rows, keys, root / name)
    if not (data.folder / "truth.json").exists():
        if laps > 1 and not advancing:
            base = prepare(rows=LAP_ROWS, keys=keys, even=even, root=root)
            _publish(data.folder, lambda folder: _repeat_truth(base, folder, laps))
        else:
            _publish(data.folder, lambda folder: _generate(folder, rows=rows // laps, keys=keys, laps=laps, even=even))
    return data


def check(answer: Answer, truth: dict[str, Any], *, windowed: bool) -> str | None:
    """What is wrong with the answer; None: nothing.

    A window may be missing only if nothing in the input could have closed it: its end is later than the last watermark.
    """
    if not windowed:
        found = [answer.groups, answer.rows, answer.squares]
        expected = [truth["distinct_keys"], truth["rows"], truth["squares"]]
        return None if found == expected else f"[groups, rows, squares] are {found} instead of {expected}"
    windows = answer.windows or {}
    watermark_ms = truth["last_ms"] - LATENESS_MS
    for start, expected in truth["windows"].items():
        found = windows.get(start, [])
        may_be_open = int(start) + WINDOW_MS > watermark_ms
        if found != expected and not (may_be_open and not found):
            return f"the window at {start} has [groups, rows, sum, squares] {found} instead of {expected}"
    unknown = windows.keys() - truth["windows"].keys()
    return f"there are windows that should not be: {sorted(unknown)[:3]}" if unknown else None


def _publish(folder: Path, make: Callable[[Path], None]) -> None:
    """Makes a folder whole or not at all."""
    unfinished = folder.with_name(f".{folder.name}.{os.getpid()}")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    make(unfinished)
    unfinished.rename(folder)


def _base_of(data: DataSet) -> DataSet | None:
    """The data set whose files this one repeats."""
    repeats = data.truth.get("repeats", 1)
    if repeats == 1:
        return None
    even = data.folder.name.endswith("-even")
    return prepare(rows=data.rows // repeats, keys=data.keys, even=even, root=data.folder.parent)


# --------------------------------------------------------------------------------------------------------- generating


def _generate(folder: Path, *, rows: int, keys: int, laps: int, even: bool) -> None:
    random = np.random.default_rng((SEED, rows, keys))
    ids = random.permutation(np.arange(rows) % keys) if even else _zipf(random, rows=rows, keys=keys)
    values = random.integers(0, 1_000, rows)
    delays_ms = random.integers(0, DISORDER_MS + 1, rows)
    names = pa.compute.binary_join_element_wise("user_", pa.array(np.arange(keys)).cast(pa.string()), "").take(ids)
    windows = _WindowTruth(ids, values, keys) if keys <= WINDOW_KEYS_MAX else None
    (folder / "parquet").mkdir()
    last_ms = 0
    for lap in range(laps):
        times_ms = FIRST_MS + DISORDER_MS + (np.arange(rows, dtype=np.int64) + lap * rows) // ROWS_PER_MS - delays_ms
        table = pa.table({"event_time": times_ms, "key": names, "value": values})
        for file, (first, stop) in enumerate(_cuts(rows)):
            path = folder / "parquet" / f"part-{lap * FILES_PER_LAP + file:05}.parquet"
            part = table.slice(first, stop - first)
            pa.parquet.write_table(part, path, compression="snappy", row_group_size=ROW_GROUP_ROWS)
        last_ms = max(last_ms, int(times_ms.max()))
        if windows is not None:
            windows.add(times_ms)
    counts = np.bincount(ids, minlength=keys) * laps
    truth = {
        "rows": rows * laps,
        "keys": keys,
        "distinct_keys": int(np.count_nonzero(counts)),
        "squares": int((counts * counts).sum()),
        "value_sum": int(values.sum()) * laps,
        "last_ms": last_ms,
        "windows": None if windows is None else windows.windows,
    }
    (folder / "truth.json").write_text(json.dumps(truth))


def _zipf(random: np.random.Generator, *, rows: int, keys: int) -> Integers:
    shares = np.cumsum(1.0 / np.arange(1, keys + 1) ** ZIPF_EXPONENT)
    ranks = np.searchsorted(shares / shares[-1], random.random(rows), side="right")
    # The frequent keys must not be neighbours.
    names: Integers = random.permutation(keys)
    return names[np.minimum(ranks, keys - 1)]


def _cuts(rows: int) -> Iterator[tuple[int, int]]:
    for file in range(FILES_PER_LAP):
        yield rows * file // FILES_PER_LAP, rows * (file + 1) // FILES_PER_LAP


class _WindowTruth:
    """For the start of each window: keys, rows, sum of the values, sum of the squared counts per key."""

    def __init__(self, ids: Integers, values: Integers, keys: int) -> None:
        self._ids = ids
        self._values = values
        self._keys = keys
        self._counts: dict[int, Integers] = {}
        self._sums: dict[int, int] = {}

    def add(self, times_ms: Integers) -> None:
        numbers = times_ms // WINDOW_MS
        first = int(numbers.min())
        windows = int(numbers.max()) - first + 1
        groups = (numbers - first) * self._keys + self._ids
        counts = np.bincount(groups, minlength=windows * self._keys).reshape(windows, self._keys)
        sums = np.bincount(numbers - first, weights=self._values, minlength=windows)
        for index in range(windows):
            number = first + index
            self._counts[number] = self._counts.get(number, 0) + counts[index]
            self._sums[number] = self._sums.get(number, 0) + int(sums[index])

    @property
    def windows(self) -> dict[str, list[int]]:
        return {
            str(number * WINDOW_MS): [
                int(np.count_nonzero(counts)),
                int(counts.sum()),
                self._sums[number],
                int((counts * counts).sum()),
            ]
            for number, counts in self._counts.items()
            if counts.any()
        }


# ------------------------------------------------------------------------------------------------ repeats and layouts


def _repeat_truth(base: DataSet, folder: Path, repeats: int) -> None:
    truth = base.truth
    truth["rows"] *= repeats
    truth["value_sum"] *= repeats
    truth["squares"] *= repeats**2
    truth["windows"] = None
    truth["repeats"] = repeats
    (folder / "truth.json").write_text(json.dumps(truth))


def _link_again(files: Path, folder: Path, repeats: int) -> None:
    for repeat in range(repeats):
        for index, file in enumerate(sorted(files.iterdir())):
            (folder / f"part-{repeat * FILES_PER_LAP + index:05}{file.suffix}").hardlink_to(file)


def _as_text(parquet: Path, folder: Path, layout: Layout) -> None:
    files = sorted(parquet.iterdir())
    if layout == "csv_striped":
        _as_stripes(files, folder)
        return
    options = pa.csv.WriteOptions(include_header=layout == "csv_header", quoting_style="none")
    for file in files:
        pa.csv.write_csv(pa.parquet.read_table(file), folder / f"{file.stem}.csv", options)


def _as_stripes(files: list[Path], folder: Path) -> None:
    options = pa.csv.WriteOptions(include_header=False, quoting_style="none")
    schema = pa.parquet.read_schema(files[0])
    for stripe in (0, 1):
        (folder / f"stripe-{stripe}").mkdir()
        with pa.csv.CSVWriter(folder / f"stripe-{stripe}" / "part.csv", schema, write_options=options) as writer:
            for file in files:
                table = pa.parquet.read_table(file)
                writer.write_table(table.take(pa.array(np.arange(stripe, table.num_rows, 2))))

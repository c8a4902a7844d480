"""W6: how often did each word occur in the last five seconds, every second?

Lines of text with the time at which they were said. They are cut into words on whole columns; from there on the stream
is one of typed rows, and the sliding windows count them without a Python object per word.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import cutwater as cw

SIZE, EVERY = "5s", "1s"
DISORDER_MS = 1_000
WORDS_PER_LINE = 8
VOCABULARY = 5_000
BASE_TIME_MS = 1_436_918_400_000

TIME = pa.timestamp("ms", "UTC")
LINES = pa.schema([("time", TIME), ("line", pa.string())])
WORDS = pa.schema([("time", TIME), ("word", pa.string())])


def make_data(
    folder: Path,
    events: int,
    *,
    lines_per_second: float = 10_000,
    lines_per_file: int = 200_000,
    lines_per_group: int = 65_536,
    seed: int = 0,
) -> None:
    """So many lines in typed Parquet files that follow each other in time; a few words are most of the text."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    vocabulary = pa.array([f"word{number:04d}" for number in range(VOCABULARY)])
    for part, first in enumerate(range(0, events, lines_per_file)):
        random = np.random.default_rng((seed, part))
        numbers = np.arange(first, min(first + lines_per_file, events))
        times = BASE_TIME_MS + (numbers * (1_000 / lines_per_second)).astype(np.int64)
        told = np.argsort(times + random.integers(0, DISORDER_MS + 1, len(times)), kind="stable")
        # The square of an even distribution: the frequent words are really frequent.
        codes = (random.random((WORDS_PER_LINE, len(numbers))) ** 2 * VOCABULARY).astype(np.int64)
        lines = pc.binary_join_element_wise(*(vocabulary.take(pa.array(column)) for column in codes), " ")
        table = pa.Table.from_arrays([pa.array(times[told]).cast(TIME), lines], schema=LINES)
        pq.write_table(table, Path(folder) / f"part-{part:05d}.parquet", row_group_size=lines_per_group)


def word_count(env: cw.Environment, folder: Path) -> cw.DataStream:
    """Rows of word, window_start, window_end and count."""
    lines = env.from_source(cw.sources.files(folder, format="parquet"), uid="lines")
    timed = lines.assign_timestamps("time", cw.watermarks.bounded(f"{DISORDER_MS}ms"))
    words = timed.map_batches(words_of, schema=WORDS, uid="words")
    return words.key_by("word").window(cw.sliding(SIZE, EVERY)).count(uid="counts")


def words_of(lines: pa.RecordBatch) -> pa.RecordBatch:
    """One row for each word, at the time of its line."""
    split = pc.split_pattern(lines.column("line"), " ")
    times = lines.column("time").take(pc.list_parent_indices(split))
    return pa.RecordBatch.from_arrays([times, pc.list_flatten(split)], schema=WORDS)


def answer(folder: Path) -> Counter[tuple[Any, ...]]:
    """DuckDB's: (word, start of the window, count), each once."""
    query = f"""
        WITH words AS (SELECT epoch_ms(time) AS ms, unnest(string_split(line, ' ')) AS word FROM '{folder}/*.parquet')
        SELECT word, ms // 1000 * 1000 - back AS start, count(*)
        FROM words, range(0, 5000, 1000) AS windows(back) GROUP BY ALL
    """
    import duckdb  # the job's own process has no use for it

    with duckdb.connect() as connection:
        return Counter(connection.execute(query).fetchall())


def verify(results: Iterable[Any], folder: Path) -> None:
    """Raises unless these are the right results, all of them, each once."""
    found = Counter((row.word, round(row.window_start.timestamp() * 1_000), row.count) for row in results)
    expected = answer(folder)
    if found != expected:
        missing, extra = expected - found, found - expected
        raise AssertionError(
            f"W6: {missing.total()} of {expected.total()} results are missing, {extra.total()} are too many\n"
            f"  missing: {list(missing)[:3]}\n  extra:   {list(extra)[:3]}"
        )

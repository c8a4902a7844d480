"""What is the demo's job?"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cutwater as cw
from cutwater.demo.books import HEAVY_LINE, Paced

HEAVY_LINE_SECONDS = 0.15


@dataclass(frozen=True, slots=True)
class DemoFolders:
    """Where a demo keeps its things."""

    root: Path

    @property
    def books(self) -> Path:
        return self.root / "books"

    @property
    def output(self) -> Path:
        return self.root / "counts"

    @property
    def checkpoints(self) -> Path:
        return self.root / "checkpoints"


def words_of(line: str) -> list[str]:
    """The user's function; a chapter's first line takes its time."""
    words = line.split()
    if words[0] == HEAVY_LINE:
        time.sleep(HEAVY_LINE_SECONDS)
    return words


def as_row(pair: tuple[str, int]) -> dict[str, Any]:
    return {"word": pair[0], "count": pair[1]}


def build(folders: DemoFolders, *, mode: str, lines_per_second: float, spark: Any = None) -> cw.Environment:
    """Text in, words counted by key with managed state, every new count out."""
    checkpoints = (
        cw.Checkpoints(mode="none")
        if mode == "none"
        else cw.Checkpoints(every="500ms", mode=mode, storage=f"file://{folders.checkpoints}", tolerable_failures=5)
    )
    env = cw.Environment(
        parallelism=2,
        spark=spark,
        checkpoints=checkpoints,
        state_backend="filesystem",
        restart=cw.restart.fixed_delay(attempts=100, delay="0s"),
    )
    books = Paced(cw.sources.files(str(folders.books / "*.txt")), lines_per_second)
    (
        env.from_source(books, uid="books")
        .flat_map(words_of, uid="words")
        .key_by(str)
        .count(uid="count")
        .map(as_row, uid="rows")
        .sink_to(cw.sinks.json_lines(str(folders.output)), uid="counts")
    )
    return env

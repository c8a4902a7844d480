"""Which workloads bring their own input, and their own right answer?

W5, Nexmark's auction house, and W6, words in sliding windows: made once for each size, checked by a batch engine.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import cutwater as cw
from benchmarks import nexmark, word_count
from benchmarks.nexmark import answers

DATA = Path("build/bench-data")


@dataclass(frozen=True, slots=True)
class Story:
    """An input and a question about it."""

    data: str
    make_data: Callable[[Path, int], None]
    build: Callable[[cw.Environment, Path], cw.DataStream]
    #: Raises when the results are not the batch engine's.
    verify: Callable[[Iterable[Any], Path], None]

    def prepare(self, events: int) -> Path:
        """The folder with so many events; made if it isn't there, and only then visible."""
        folder = DATA / f"{self.data}-{events}"
        if not folder.exists():
            unfinished = folder.with_name(f".{folder.name}")
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir(parents=True)
            self.make_data(unfinished, events)
            unfinished.rename(folder)
        return folder


STORIES: dict[str, Story] = {
    **{
        f"W5-{name}": Story("nexmark", nexmark.make_data, build, partial(answers.verify, name))
        for name, build in nexmark.QUERIES.items()
    },
    "W6": Story("words", word_count.make_data, word_count.word_count, word_count.verify),
}

"""Counts words: text files in, every new count of a word out as JSON.

Run it: `cutwater run examples/word_count.py`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cutwater as cw


def build(env: cw.Environment, input_folder: Path, output_folder: Path) -> None:
    (
        env.from_source(cw.sources.files(input_folder / "*.txt"), uid="books")
        .flat_map(str.split, uid="words")
        .key_by(str)
        .count(uid="counts")
        .map(as_row, uid="rows")
        .sink_to(cw.sinks.json_lines(output_folder), uid="out")
    )


def as_row(counted: tuple[str, int]) -> dict[str, Any]:
    word, count = counted
    return {"word": word, "count": count}


if __name__ == "__main__":
    from data import workspace, write_books

    folders = workspace("word-count", write_books)
    env = cw.Environment(parallelism=2, checkpoints=cw.Checkpoints(every="500ms", storage=folders.checkpoints))
    build(env, folders.input, folders.output)
    print(env.explain("word count"))
    env.execute("word count", require="exactly_once")
    print(f"\nthe counts are in {folders.output}")

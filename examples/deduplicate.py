"""Lets each click pass once, wherever its copies come from; the copies go to a side output.

Run it: `cutwater run examples/deduplicate.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cutwater as cw


class PassOnce:
    """The state is the click's own: has it been seen?"""

    def open(self, context: Any) -> None:
        self._seen = context.value_state("seen", default=False)

    def process(self, click: dict[str, Any], context: Any) -> Iterator[dict[str, Any]]:
        if self._seen.value():
            context.side_output("duplicates", click)
        else:
            self._seen.update(True)
            yield click


def build(env: cw.Environment, input_folder: Path, output_folder: Path) -> None:
    clicks = env.from_source(cw.sources.files(input_folder / "*.jsonl", format="json"), uid="clicks")
    unique = clicks.key_by("click").process(PassOnce(), uid="pass-once")
    unique.sink_to(cw.sinks.json_lines(output_folder / "unique"), uid="unique")
    unique.side_output("duplicates").sink_to(cw.sinks.json_lines(output_folder / "duplicates"), uid="duplicates")


if __name__ == "__main__":
    from data import workspace, write_clicks

    folders = workspace("deduplicate", write_clicks)
    env = cw.Environment(parallelism=2, checkpoints=cw.Checkpoints(every="500ms", storage=folders.checkpoints))
    build(env, folders.input, folders.output)
    env.execute("deduplicate", require="exactly_once")
    print(f"the clicks are in {folders.output}")

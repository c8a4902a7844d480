"""What sold best in the last five minutes? A new answer every minute: the top three items.

Two windows follow each other. The first one counts each item in sliding windows, spread over all tasks and on columns.
The second one gathers the counts of one window: they all carry its last millisecond, so that a window as long as the
slide holds the counts of exactly one of them.

Run it: `cutwater run examples/top_items.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cutwater as cw

BEST = 3


def best_sellers(window_end: Any, items: list[Any], _: Any) -> Iterator[dict[str, Any]]:
    """Items that sold equally well are ranked by name, so that the answer never depends on the order of arrival."""
    ranked = sorted(items, key=lambda item: (-item.purchases, item.item))
    for rank, item in enumerate(ranked[:BEST], start=1):
        yield {"until": f"{window_end:%H:%M}", "rank": rank, "item": item.item, "purchases": item.purchases}


def build(env: cw.Environment, input_folder: Path, output_folder: Path) -> None:
    purchases = env.from_source(cw.sources.files(input_folder, format="parquet"), uid="purchases")
    (
        purchases.assign_timestamps("time", cw.watermarks.bounded("30s"))
        .key_by("item")
        .window(cw.sliding("5min", every="1min"))
        .aggregate(purchases=cw.agg.count(), uid="counts")
        .key_by("window_end")
        .window(cw.tumbling("1min"))
        .process(best_sellers, uid="top")
        .sink_to(cw.sinks.json_lines(output_folder), uid="out")
    )


if __name__ == "__main__":
    from data import workspace, write_purchases

    folders = workspace("top-items", write_purchases)
    env = cw.Environment(parallelism=2, checkpoints=cw.Checkpoints(every="500ms", storage=folders.checkpoints))
    build(env, folders.input, folders.output)
    env.execute("top items", require="exactly_once")
    print(f"the best sellers of each minute are in {folders.output}")

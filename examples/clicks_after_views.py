"""Which advertisements were clicked within ten seconds of being seen, and which were not?

An interval join of two streams: a view waits for its click until the watermark says that none can come any more. With
`how="left"` a view without a click leaves as well, with nulls where the click would be. Both streams are typed, so a
result is a row with the columns of both.

Run it: `cutwater run examples/clicks_after_views.py`.
"""

from __future__ import annotations

from pathlib import Path

import cutwater as cw

OUT_OF_ORDERNESS = "5s"


def build(env: cw.Environment, input_folder: Path, output_folder: Path) -> None:
    views = _events(env, input_folder, "views").key_by("user", "advertisement")
    clicks = _events(env, input_folder, "clicks").key_by("user", "advertisement")
    (
        views.join(clicks, between=("0s", "10s"), how="left", uid="clicks-after-views")
        .with_columns(clicked=cw.col("time_right").is_valid())
        .select("view", "user", "advertisement", "click", "clicked", uid="rows")
        .sink_to(cw.sinks.parquet(output_folder), uid="out")
    )


def _events(env: cw.Environment, input_folder: Path, name: str) -> cw.DataStream:
    events = env.from_source(cw.sources.files(input_folder / name, format="parquet"), uid=name)
    return events.assign_timestamps("time", cw.watermarks.bounded(OUT_OF_ORDERNESS))


if __name__ == "__main__":
    from data import workspace, write_views_and_clicks

    folders = workspace("clicks-after-views", write_views_and_clicks)
    env = cw.Environment(parallelism=2, checkpoints=cw.Checkpoints(every="500ms", storage=folders.checkpoints))
    build(env, folders.input, folders.output)
    env.execute("clicks after views", require="exactly_once")
    print(f"the views, with their clicks, are in {folders.output}")

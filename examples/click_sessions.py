"""Which way do visitors take through the shop? Clicks become sessions; clicks that come too late are kept apart.

A session ends when a user was away for half an hour of event time. Clicks may come out of order: one that fills the gap
between two sessions makes them one. A phone that was offline tells its clicks when their session is long over: they go
to a side output.

Run it: `cutwater run examples/click_sessions.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cutwater as cw


def summary(user: str, clicks: list[Any], _: Any) -> Iterator[dict[str, Any]]:
    """Called once for each session, when it is over."""
    path = sorted(clicks, key=lambda click: (click.time, click.page))
    yield {
        "user": user,
        "from": path[0].time.isoformat(),
        "to": path[-1].time.isoformat(),
        "pages": [click.page for click in path],
        "paid": path[-1].page == "/pay",
    }


def build(env: cw.Environment, input_folder: Path, output_folder: Path) -> None:
    clicks = env.from_source(cw.sources.files(input_folder, format="parquet"), uid="clicks")
    sessions = (
        clicks.assign_timestamps("time", cw.watermarks.bounded("30s"))
        .key_by("user")
        .window(cw.session("30min"))
        .late_output("late")
        .process(summary, uid="sessions")
    )
    sessions.sink_to(cw.sinks.json_lines(output_folder / "sessions"), uid="sessions-out")
    sessions.side_output("late").sink_to(cw.sinks.parquet(output_folder / "late"), uid="late-out")


if __name__ == "__main__":
    from data import workspace, write_visits

    folders = workspace("click-sessions", write_visits)
    env = cw.Environment(parallelism=2, checkpoints=cw.Checkpoints(every="500ms", storage=folders.checkpoints))
    build(env, folders.input, folders.output)
    env.execute("click sessions", require="exactly_once")
    print(f"the sessions and the late clicks are in {folders.output}")

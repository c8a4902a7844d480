"""How warm was it, minute by minute? Sensors report late and out of order; what comes too late is kept apart.

Time is the time of the measurement. A minute is over when the reports are thirty seconds past it (the watermark), and
its result leaves once. Measurements that come later still (a sensor was offline) go to a side output, where a person or
a nightly job can look at them: nothing is lost silently.

The files follow each other in time, as a rotated log does: one that is read later holds nothing older. The stream is
typed, so that the windows run on columns.

Run it: `cutwater run examples/late_measurements.py`.
"""

from __future__ import annotations

from pathlib import Path

import cutwater as cw


def build(env: cw.Environment, input_folder: Path, output_folder: Path) -> None:
    measurements = env.from_source(cw.sources.files(input_folder, format="parquet"), uid="measurements")
    minutes = (
        measurements.assign_timestamps("measured_at", cw.watermarks.bounded("30s"))
        .key_by("sensor")
        .window(cw.tumbling("1min"))
        .late_output("late")
        .aggregate(
            measurements=cw.agg.count(),
            coldest=cw.agg.min("celsius"),
            warmest=cw.agg.max("celsius"),
            mean=cw.agg.mean("celsius"),
            uid="minutes",
        )
    )
    minutes.sink_to(cw.sinks.parquet(output_folder / "minutes"), uid="minutes-out")
    minutes.side_output("late").sink_to(cw.sinks.parquet(output_folder / "late"), uid="late-out")


if __name__ == "__main__":
    from data import workspace, write_measurements

    folders = workspace("late-measurements", write_measurements)
    env = cw.Environment(parallelism=2, checkpoints=cw.Checkpoints(every="500ms", storage=folders.checkpoints))
    build(env, folders.input, folders.output)
    print(env.explain("late measurements"))
    env.execute("late measurements", require="exactly_once")
    print(f"\nthe minutes and the late measurements are in {folders.output}")

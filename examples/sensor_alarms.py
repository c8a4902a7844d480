"""Which sensors are silent, and which are too hot for too long?

Both are questions about what does *not* come: no measurement for ten seconds, no cool one for a minute. A timer asks
them. Timers go by event time: when one is called, all measurements up to its time are there, however late they came.

For the same reason a measurement waits for a timer of its own time: so the measurements of a sensor are taken in the
order in which they were made. Timers are not deleted. One that is out of date finds other times in the state, and does
nothing.

Run it: `cutwater run examples/sensor_alarms.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import cutwater as cw

SILENT_MS = 10_000
HOT_MS = 60_000
HOT_CELSIUS = 70.0


class Alarms:
    """The state is the sensor's own."""

    def open(self, context: Any) -> None:
        self._waiting = context.map_state("waiting", type=float)
        self._last_ms = context.value_state("last_ms", type=int)
        self._hot_since_ms = context.value_state("hot_since_ms", type=int)

    def process(self, measurement: Any, context: Any) -> None:
        self._waiting.put(context.timestamp_ms, measurement.celsius)
        context.register_event_timer(context.timestamp_ms)

    def on_timer(self, time_ms: int, context: Any) -> Iterator[dict[str, Any]]:
        celsius = self._waiting.get(time_ms)
        if celsius is not None:
            self._waiting.remove(time_ms)
            self._measured(time_ms, celsius, context)
        if self._last_ms.value() == time_ms - SILENT_MS:
            self._hot_since_ms.clear()
            yield alarm(context.current_key, "silent", time_ms)
        elif self._hot_since_ms.value() == time_ms - HOT_MS:
            yield alarm(context.current_key, "hot", time_ms)

    def _measured(self, time_ms: int, celsius: float, context: Any) -> None:
        self._last_ms.update(time_ms)
        context.register_event_timer(time_ms + SILENT_MS)
        if celsius <= HOT_CELSIUS:
            self._hot_since_ms.clear()
        elif self._hot_since_ms.value() is None:
            self._hot_since_ms.update(time_ms)
            context.register_event_timer(time_ms + HOT_MS)


def alarm(sensor: str, reason: str, time_ms: int) -> dict[str, Any]:
    return {"sensor": sensor, "alarm": reason, "at": datetime.fromtimestamp(time_ms / 1_000, UTC).isoformat()}


def build(env: cw.Environment, input_folder: Path, output_folder: Path) -> None:
    (
        env.from_source(cw.sources.files(input_folder, format="parquet"), uid="measurements")
        .assign_timestamps("measured_at", cw.watermarks.bounded("5s"))
        .key_by("sensor")
        .process(Alarms(), uid="alarms")
        .sink_to(cw.sinks.json_lines(output_folder), uid="out")
    )


if __name__ == "__main__":
    from data import workspace, write_readings

    folders = workspace("sensor-alarms", write_readings)
    env = cw.Environment(parallelism=2, checkpoints=cw.Checkpoints(every="500ms", storage=folders.checkpoints))
    build(env, folders.input, folders.output)
    env.execute("sensor alarms", require="exactly_once")
    print(f"the alarms are in {folders.output}")

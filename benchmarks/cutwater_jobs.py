"""How is each workload written for Cutwater?

A program like a peer's (see `benchmarks.contract`): a fresh process, an embedded Spark, one job. A job that isn't here
yet is added to `JOBS`, and its name to `workloads.WORKLOADS`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import cutwater as cw
from benchmarks.contract import (
    LATENESS_MS,
    WINDOW_MS,
    Answer,
    Result,
    Settings,
    counts_answer,
    say,
    settings_from_arguments,
    windows_answer,
)
from benchmarks.stories import STORIES, Story

Job = Callable[[cw.Environment, Settings], cw.DataStream]


class CountFunction:
    """A user's function: the count so far of the record's key."""

    def open(self, context: Any) -> None:
        self._count = context.value_state("count", default=0)

    def process(self, record: Any, context: Any) -> Iterator[tuple[str, int]]:
        count = self._count.value() + 1
        self._count.update(count)
        yield record.key, count


def events_of(env: cw.Environment, given: Settings) -> cw.DataStream:
    return env.from_source(cw.sources.files(given.files, format="parquet"), uid="events")


def count_per_key(env: cw.Environment, given: Settings) -> cw.DataStream:
    update: Any = "batch" if given.variant.startswith("per batch") else "record"
    return events_of(env, given).key_by("key").count(update=update, uid="count")


def tumbling_sum(env: cw.Environment, given: Settings) -> cw.DataStream:
    watermarks = cw.watermarks.bounded(f"{LATENESS_MS}ms")
    timed = events_of(env, given).assign_timestamps("event_time", watermarks, unit="ms")
    windows = timed.key_by("key").window(cw.tumbling(f"{WINDOW_MS}ms"))
    return windows.aggregate(total=cw.agg.sum("value"), n=cw.agg.count(), uid="window")


def count_in_python(env: cw.Environment, given: Settings) -> cw.DataStream:
    return events_of(env, given).key_by("key").process(CountFunction(), uid="count")


def story_of(story: Story, env: cw.Environment, given: Settings) -> cw.DataStream:
    return story.build(env, story.prepare(given.rows))


JOBS: dict[str, Job] = {
    "W1": count_per_key,
    "W2": count_per_key,
    "W3": tumbling_sum,
    "W4": count_in_python,
    "cold": count_per_key,
    "growth-keys": count_per_key,
    "growth-parallelism": count_per_key,
    **{name: partial(story_of, story) for name, story in STORIES.items()},
}


def environment(given: Settings) -> cw.Environment:
    """Exactly once; checkpoints on the local disk, if any."""
    checkpoints = cw.Checkpoints(mode="none")
    if given.checkpoint_seconds is not None:
        checkpoints = cw.Checkpoints(
            every=f"{round(given.checkpoint_seconds * 1_000)}ms", storage=f"file://{given.scratch}"
        )
    backend: Any = given.backend or "filesystem"
    return cw.Environment(
        parallelism=given.parallelism, checkpoints=checkpoints, state_backend=backend, restart=cw.restart.none()
    )


def measure(given: Settings) -> Result:
    env = environment(given)
    results = JOBS[given.workload](env, given)
    if given.verify:
        began = time.time()
        collected = results.execute_and_collect()
        story = STORIES.get(given.workload)
        if story is not None:
            story.verify(collected, story.prepare(given.rows))
        answer = None if story is not None else answer_of(given, collected)
        return Result(time.time() - began, given.rows, version=cw.__version__, answer=answer)
    results.sink_to(cw.sinks.discard(), uid="end")
    result = env.submit(f"benchmark {given.workload}").wait()
    return Result(
        result.status.running_seconds,
        given.rows,
        ended_at=time.time(),
        version=cw.__version__,
        facts=checkpoint_facts(result.status),
    )


def checkpoint_facts(status: cw.JobStatus) -> dict[str, Any]:
    completed = [one for one in status.checkpoints if one.completed]
    facts: dict[str, Any] = {
        "checkpoints": status.checkpoints_completed,
        "checkpoints_failed": status.checkpoints_failed,
        "source_rows": max((task.records_out for task in status.tasks), default=0),
    }
    if completed:
        facts |= {
            "checkpoint_ms_mean": round(1_000 * sum(one.duration_seconds for one in completed) / len(completed), 1),
            "checkpoint_ms_max": round(1_000 * max(one.duration_seconds for one in completed), 1),
            "checkpoint_bytes_max": max(one.size_bytes for one in completed),
            "source_pause_ms_max": round(1_000 * max(one.source_pause_seconds_max for one in completed), 2),
        }
    return facts


def answer_of(given: Settings, rows: list[Any]) -> Answer:
    if given.workload == "W3":
        return windows_answer((round(row.window_start.timestamp() * 1_000), row.total, row.n) for row in rows)
    counts: dict[str, int] = {}
    for key, count in rows:
        counts[key] = max(counts.get(key, 0), count)
    return counts_answer(counts.values())


if __name__ == "__main__":
    say(measure(settings_from_arguments()))

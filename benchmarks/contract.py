"""What is a measured process told, and what does it say?

One JSON object as its only argument; one line `RESULT {json}` on its standard output. Nothing but the standard library
is imported here: every peer has an environment of its own.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

MARK = "RESULT "
WINDOW_MS = 10_000
LATENESS_MS = 5_000
#: The beginning of a latency run that its percentiles leave out.
SETTLE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Settings:
    """One run of one system."""

    workload: str
    #: The folder with the files to read, in the layout that the system was given.
    files: str
    rows: int
    #: An empty folder of the run's own, for checkpoints.
    scratch: str
    backend: str | None = None
    checkpoint_seconds: float | None = None
    parallelism: int = 2
    variant: str = ""
    #: Collect the results and say what they add up to, instead of discarding them. For small inputs.
    verify: bool = False
    #: Seconds that the measured part should last; only for systems that repeat themselves (one batch query is short).
    target_seconds: float = 0.0
    #: A run before the measured one in the same process, where the system profits from it.
    warm_up: bool = True

    def to_json(self) -> str:
        return json.dumps(asdict(self))


@dataclass(slots=True)
class Answer:
    """What the results add up to, comparable with `truth.json` whatever the system.

    Counts per key: `groups` keys, `rows` counted, and the sum of the squared counts, which no two rows under wrong keys
    leave as it is. For windows the same for each window's start, with the sum of the values.
    """

    groups: int = 0
    rows: int = 0
    squares: int = 0
    windows: dict[str, list[int]] | None = None


@dataclass(slots=True)
class Result:
    """What a run found. All times are `time.time()`."""

    #: The steady part: from the first row to the last result.
    seconds: float
    rows: int
    #: When the result was there.
    ended_at: float = 0.0
    #: Spent on runs before the measured one; neither start-up nor steady.
    warm_up_seconds: float = 0.0
    version: str = ""
    answer: Answer | None = None
    p50_ms: float | None = None
    p99_ms: float | None = None
    #: Anything else worth keeping: checkpoints taken, their duration, …
    facts: dict[str, Any] = field(default_factory=dict)


def settings_from_arguments() -> Settings:
    return Settings(**json.loads(sys.argv[1]))


def say(result: Result) -> None:
    """The last thing that a measured process does."""
    result.ended_at = result.ended_at or time.time()
    print(MARK + json.dumps(asdict(result)), flush=True)


def counts_answer(counts: Iterable[int]) -> Answer:
    """Of the final count of each key."""
    answer = Answer()
    for count in counts:
        answer.groups += 1
        answer.rows += count
        answer.squares += count * count
    return answer


def windows_answer(results: Iterable[tuple[int, int, int]]) -> Answer:
    """Of (window start in milliseconds, sum, count), one for each window and key."""
    answer = Answer(windows={})
    assert answer.windows is not None
    for start, total, count in results:
        window = answer.windows.setdefault(str(start), [0, 0, 0, 0])
        window[0] += 1
        window[1] += count
        window[2] += total
        window[3] += count * count
        answer.groups += 1
        answer.rows += count
        answer.squares += count * count
    return answer

"""How do two ways to move the same records compare, and how sure is that?"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median


@dataclass(frozen=True, slots=True)
class Run:
    """Records that were moved, without start-up, and the processor's time of the process that moved them."""

    rows: int
    seconds: float
    cpu_seconds: float

    @property
    def rows_per_second(self) -> float:
        return self.rows / self.seconds

    @property
    def cpu_us_per_row(self) -> float:
        return 1e6 * self.cpu_seconds / self.rows


class Stopwatch:
    """Times a process from inside. Threads of the client count for `cpu_seconds`, too."""

    def __init__(self, rows: int) -> None:
        self._rows_wanted = rows
        self._rows_before = 0
        self._rows = 0
        self._began = self._cpu_began = 0.0

    def begin(self) -> None:
        """Before the first record is sent."""
        self._began, self._cpu_began = time.monotonic(), time.process_time()

    def saw(self, rows: int) -> bool:
        """So many more records have arrived; True: all have. The first of them start the watch, and don't count."""
        if not self._began:
            self.begin()
            self._rows_before = rows
        self._rows += rows
        return self._rows >= self._rows_wanted

    def end(self) -> Run:
        """After `saw`, or after everything that was sent is acknowledged."""
        if self._rows_before >= self._rows_wanted:
            raise ValueError(f"all {self._rows_wanted:,} records came at once: too few to time them")
        cpu_seconds = time.process_time() - self._cpu_began
        return Run(self._rows_wanted - self._rows_before, time.monotonic() - self._began, cpu_seconds)


@dataclass(frozen=True, slots=True)
class Spread:
    """Of several values the middle, and how far they lie apart."""

    median: float
    low: float
    high: float

    @staticmethod
    def of(values: Sequence[float]) -> Spread:
        return Spread(median(values), min(values), max(values))

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.low:.2f}–{self.high:.2f})"


@dataclass(slots=True)
class Comparison:
    """One connector beside its bare client, round by round."""

    name: str
    #: "source" or "sink".
    kind: str
    #: The ratio that is asked for; None: none.
    asked: float | None = None
    #: What the bare client does.
    bare_does: str = ""
    bare: list[Run] = field(default_factory=list)
    ours: list[Run] = field(default_factory=list)

    @property
    def ratio(self) -> Spread:
        """Our throughput as a share of the bare client's, within each round."""
        pairs = zip(self.ours, self.bare, strict=True)
        return Spread.of([ours.rows_per_second / bare.rows_per_second for ours, bare in pairs])

    @property
    def cpu_ratio(self) -> Spread:
        """The same for records per second of processor time: others on the machine disturb it less."""
        pairs = zip(self.ours, self.bare, strict=True)
        return Spread.of([bare.cpu_us_per_row / ours.cpu_us_per_row for ours, bare in pairs])

    @property
    def is_met(self) -> bool:
        return self.asked is None or self.ratio.median >= self.asked

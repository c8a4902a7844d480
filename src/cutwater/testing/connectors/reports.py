"""What do people read after a check?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from cutwater.graph.guarantees import Guarantee
from cutwater.testing.connectors.faults import Fault

#: What counts as a process killed.
VICTIMS = ("slot", "driver", "server")


@dataclass(frozen=True, slots=True)
class TrialReport:
    """One line of the table."""

    fault: Fault
    records: int
    received: int
    repeated: int
    #: What was done, by word: "slot", "driver", "server" for processes killed; "pause", "open transaction", …
    deeds: Counter[str]
    restarts: int
    seconds: float
    #: What contradicts the guarantee; none: it held.
    findings: tuple[str, ...] = ()
    note: str = ""

    @property
    def passed(self) -> bool:
        return not self.findings


@dataclass(frozen=True, slots=True)
class Report:
    """All trials of one connector. Printed, it is a table."""

    subject: str
    guarantee: Guarantee
    seed: int
    trials: tuple[TrialReport, ...]
    #: Faults that were asked for by ALL, and don't apply.
    left_out: tuple[tuple[Fault, str], ...] = ()

    @property
    def passed(self) -> bool:
        return all(trial.passed for trial in self.trials)

    @property
    def kills(self) -> dict[str, int]:
        """Processes killed in all trials, by kind: slot, driver, server."""
        return {victim: sum(trial.deeds[victim] for trial in self.trials) for victim in VICTIMS}

    def __str__(self) -> str:
        head = ("trial", "records", "received", "repeated", "done to it", "restarts", "seconds", "found")
        rows = [_cells(trial) for trial in self.trials]
        lines = [
            f"{self.subject}: {self.guarantee.words} {'held' if self.passed else 'was broken'} (seed {self.seed})",
            *_table([head, *rows]),
        ]
        lines += [f"left out: {fault} ({reason})" for fault, reason in self.left_out]
        killed = ", ".join(_counted(count, victim) for victim, count in self.kills.items() if count)
        lines.append(f"killed: {killed or 'nothing'}")
        return "\n".join(lines)


class GuaranteeBroken(AssertionError):
    """A connector does not keep what it promises; the report says in which trials."""

    def __init__(self, report: Report) -> None:
        super().__init__(f"\n{report}")
        self.report = report


def _cells(trial: TrialReport) -> tuple[str, ...]:
    done = ", ".join(_counted(count, word) for word, count in sorted(trial.deeds.items())) or "–"
    found = "; ".join(trial.findings) or trial.note or "as promised"
    amounts = (f"{trial.records:,}", f"{trial.received:,}", f"{trial.repeated:,}")
    return (str(trial.fault), *amounts, done, str(trial.restarts), f"{trial.seconds:.1f}", found)


def _counted(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"


def _table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]

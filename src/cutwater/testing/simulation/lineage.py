"""Which output must be visible when a job has lived several times?

    life 1   ── chk-1 ── savepoint ── chk-2 ── cancelled
                             └───── life 2 ── chk-3 ── finished

Output comes in parts. A snapshot *covers* the parts that its sinks had committed or prepared when it was taken, since
the beginning of the line of snapshots that leads to it. A life that goes on from a snapshot covers what that one does,
and what it writes itself: here the parts of chk-1, of the savepoint and of chk-3. What chk-2 made visible stays
visible: the records behind the savepoint come twice, because life 2 was asked to read them again.

    from                          the line goes on from          so in the end there is
    the latest                    the newest checkpoint          every record once
    a savepoint, an older one     that one                       what came behind it again
    nothing, or a deleted folder  nothing                        everything again
    an older one, as the newest   that one, and the job says     what came behind it again
    is damaged                    that it passed one over
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

Part = str
"""A sink and one of its parts: "out/01.0003-0-0001"."""
NOTHING = ""
"""The name of the snapshot that a job without one goes on from."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One that a job can go on from."""

    checkpoint: int
    covered: frozenset[Part]


@dataclass(slots=True)
class Lineage:
    """All snapshots of a run, and the line that the job is in now."""

    #: By folder, of all lives.
    snapshots: dict[str, Snapshot] = field(default_factory=lambda: {NOTHING: Snapshot(0, frozenset())})
    #: Covered by any snapshot that ever completed: only that may be visible.
    ever_covered: set[Part] = field(default_factory=set)
    #: Folders, oldest first. Ids grow along a line, behind the first: that may come from a journal that is gone.
    _line: list[str] = field(default_factory=lambda: [NOTHING])

    @property
    def newest(self) -> Snapshot:
        return self.snapshots[self._line[-1]]

    def _line_before(self, checkpoint: int) -> list[str]:
        first, *rest = self._line
        return [first, *(folder for folder in rest if self.snapshots[folder].checkpoint < checkpoint)]

    def completed(self, folder: str, checkpoint: int, prepared: Iterable[Part]) -> Snapshot:
        """A checkpoint of the line is complete; one that completes behind a newer one doesn't lengthen the line."""
        made = self.taken(folder, checkpoint, prepared)
        self.ever_covered |= made.covered
        if self._line_before(checkpoint) == self._line:
            self._line.append(folder)
        return made

    def taken(self, folder: str, checkpoint: int, prepared: Iterable[Part]) -> Snapshot:
        """A snapshot that the job itself won't go back to: a savepoint."""
        base = self.snapshots[self._line_before(checkpoint)[-1]].covered
        made = self.snapshots[folder] = Snapshot(checkpoint, base | frozenset(prepared))
        return made

    def goes_on_from(self, folder: str) -> None:
        """An attempt starts there: what it writes belongs to a line that comes from there."""
        self.ever_covered |= self.snapshots[folder].covered
        if folder in self._line:
            del self._line[self._line.index(folder) + 1 :]
        else:
            self._line = [folder]

    def forget(self, folder: str) -> None:
        """Someone has deleted all that was in this folder; output that was covered stays what it is."""
        for name in [name for name in self.snapshots if name.startswith(f"{folder}/")]:
            del self.snapshots[name]
        self._line = [NOTHING]


def output_problem(
    *, visible: frozenset[Part], visible_before: frozenset[Part], lineage: Lineage, complete: bool
) -> str | None:
    """What is wrong with the parts that are visible after a life; None: nothing.

    `complete`: the life has ended by itself or was stopped, so that everything it covers must be visible. One that was
    cancelled or killed may leave prepared output, for a life that goes on from its last checkpoint.
    """
    if uncovered := sorted(visible - lineage.ever_covered):
        return f"no completed snapshot covers {uncovered[:8]}"
    if gone := sorted(visible_before - visible):
        return f"{gone[:8]} were visible before"
    if complete and (missing := sorted(lineage.newest.covered - visible)):
        return f"{missing[:8]} are covered, but not visible"
    return None

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

A sink may write somewhere else in a later life. What the snapshot had committed stays where it was; what it had only
prepared is made visible in the new place. Whether it becomes visible in the old place, too, is no matter of this line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

Part = str
"""A place and one of the parts of output there: "out/01.0003-0-0001"."""
NOTHING = ""
"""The name of the snapshot that a job without one goes on from."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One that a job can go on from."""

    checkpoint: int
    covered: frozenset[Part]
    #: Those of them that it holds as prepared: they may not be visible yet.
    prepared: frozenset[Part] = frozenset()

    def with_prepared(self, published_as: Callable[[Part], Part]) -> Snapshot:
        """The same, when what it prepared becomes visible as something else."""
        moved = frozenset(map(published_as, self.prepared))
        return Snapshot(self.checkpoint, (self.covered - self.prepared) | moved, moved)


def _as_it_is(part: Part) -> Part:
    return part


@dataclass(slots=True)
class Lineage:
    """All snapshots of a run, and the line that the job is in now."""

    #: By folder, of all lives.
    snapshots: dict[str, Snapshot] = field(default_factory=lambda: {NOTHING: Snapshot(0, frozenset())})
    #: Covered by any snapshot that ever completed: only that may be visible.
    ever_covered: set[Part] = field(default_factory=set)
    #: Folders, oldest first, and what the job made of each.
    _line: dict[str, Snapshot] = field(default_factory=lambda: {NOTHING: Snapshot(0, frozenset())})
    #: By attempt, the line that it was in, or is.
    _lines: dict[int, dict[str, Snapshot]] = field(default_factory=dict)

    @property
    def newest(self) -> Snapshot:
        return list(self._line.values())[-1]

    def completed(self, folder: str, checkpoint: int, prepared: Iterable[Part]) -> Snapshot:
        """A checkpoint of the line is complete; one that completes behind a newer one doesn't lengthen the line."""
        made = self._made(folder, checkpoint, prepared, self._line)
        self.ever_covered |= made.covered
        if checkpoint > self.newest.checkpoint:
            self._line[folder] = made
        return made

    def taken(self, folder: str, checkpoint: int, prepared: Iterable[Part], attempt: int | None = None) -> Snapshot:
        """A snapshot that the job itself won't go back to: a savepoint.

        It is of the line of the attempt that took it (None: the one of now), of which we may hear when the next one has
        completed checkpoints with lower numbers.
        """
        return self._made(folder, checkpoint, prepared, self._line if attempt is None else self._lines[attempt])

    def _made(self, folder: str, checkpoint: int, prepared: Iterable[Part], line: Mapping[str, Snapshot]) -> Snapshot:
        older = [snapshot for snapshot in line.values() if snapshot.checkpoint < checkpoint]
        base = older[-1].covered if older else frozenset[Part]()
        own = frozenset(prepared)
        made = self.snapshots[folder] = Snapshot(checkpoint, base | own, own)
        return made

    def goes_on_from(
        self, folder: str, published_as: Callable[[Part], Part] = _as_it_is, attempt: int | None = None
    ) -> None:
        """This attempt starts there: what it writes belongs to a line that comes from there.

        `published_as`: what a part that the snapshot prepared becomes visible as, now.
        """
        self.commits(folder, published_as)
        begun = self.snapshots[folder].with_prepared(published_as)
        names = list(self._line)
        kept = {name: self._line[name] for name in names[: names.index(folder)]} if folder in names else {}
        # One of another line has a number of that line, which the job may give to a checkpoint of its own.
        number = self._line[folder].checkpoint if folder in names else 0
        self._line = kept | {folder: replace(begun, checkpoint=number)}
        if attempt is not None:
            self._lines[attempt] = self._line

    def commits(self, folder: str, published_as: Callable[[Part], Part] = _as_it_is) -> None:
        """Before it starts an attempt, a job makes visible what the snapshot has prepared; it may come no further."""
        self.ever_covered |= self.snapshots[folder].with_prepared(published_as).covered

    def forget(self, folder: str) -> None:
        """Someone has deleted all that was in this folder; output that was covered stays what it is."""
        for name in [name for name in self.snapshots if name.startswith(f"{folder}/")]:
            del self.snapshots[name]
        self._line = {NOTHING: self.snapshots[NOTHING]}
        self._lines.clear()


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

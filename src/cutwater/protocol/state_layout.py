"""Is the state of an operator in a snapshot what the program takes it for?

A layout says what the state of every key consists of: names, and what each of them is. State is matched by these, never
by position: a sum must not become another sum because two lines of the program changed places.
"""

from __future__ import annotations

from dataclasses import dataclass

StateLayout = tuple[tuple[str, str], ...]
"""(name, what it is) of each part; empty: the operator doesn't say."""


@dataclass(frozen=True, slots=True)
class LayoutChange:
    """What differs between a snapshot and a program. Order is no difference."""

    added: tuple[str, ...]
    """The program has it, the snapshot does not: nothing is known of the records so far."""
    removed: tuple[str, ...]
    """The snapshot has it, the program has no use for it."""
    changed: tuple[tuple[str, str, str], ...]
    """(name, what it was, what it is)."""


def layout_change(before: StateLayout, now: StateLayout) -> LayoutChange:
    """From the layout in a snapshot to that of the program."""
    old, new = dict(before), dict(now)
    return LayoutChange(
        added=tuple(name for name in new if name not in old),
        removed=tuple(name for name in old if name not in new),
        changed=tuple(
            (name, old[name], new[name]) for name in new if name in old and not _may_be_one(old[name], new[name])
        ),
    )


def _may_be_one(before: str, now: str) -> bool:
    """Equal, or one of them says less: "sum" is the sum of what a function picks, perhaps the "sum of cents"."""
    return before == now or before.startswith(f"{now} of ") or now.startswith(f"{before} of ")

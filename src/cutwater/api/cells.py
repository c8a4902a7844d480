"""Which cell of a notebook is running?

A cell may be run again: what it added to a job the last time then gives way. Outside of IPython there are no cells.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Cell:
    """One run of a cell."""

    #: As the notebook names it; else its source, for a front end that doesn't tell.
    identity: str
    #: Counts all runs of all cells.
    run: int

    def is_rerun_of(self, other: Cell) -> bool:
        return self.identity == other.identity and self.run != other.run


def running_cell() -> Cell | None:
    """None: this is no notebook and no IPython console."""
    ipython = sys.modules.get("IPython")
    shell: Any = None if ipython is None else ipython.get_ipython()
    if shell is None:
        return None
    identity = _told_identity(shell) or _source(shell)
    return None if identity is None else Cell(identity, int(shell.execution_count))


def _told_identity(shell: Any) -> str | None:
    """JupyterLab and VS Code say which cell it is, also when its text has changed."""
    try:
        told = shell.get_parent()["metadata"]["cellId"]
    except (AttributeError, KeyError, TypeError):
        return None
    return str(told)


def _source(shell: Any) -> str | None:
    sources = getattr(shell, "user_ns", {}).get("In") or []
    return sources[-1] if sources else None

"""What is in this snapshot, whatever backend wrote it?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from cutwater.errors import ConfigurationError
from cutwater.snapshots.format import Manifest, TaskSnapshot
from cutwater.snapshots.reader import load_manifest
from cutwater.snapshots.storage import Storage, absolute_url, open_storage, split_url


@dataclass(frozen=True, slots=True)
class StateSummary:
    """One state of one operator, of all its tasks."""

    operator: str
    name: str
    kind: str
    form: str
    """How its bytes lie there: chunks, database, table or items."""
    tasks: int
    #: As far as that is known without reading: a database holds all states of its operator.
    size_bytes: int | None


@dataclass(frozen=True, slots=True)
class OpenSnapshot:
    """A checkpoint or a savepoint, by the path of its folder."""

    url: str
    manifest: Manifest

    @property
    def storage(self) -> Storage:
        return open_storage(split_url(self.url)[0])

    @property
    def folder(self) -> str:
        return split_url(self.url)[1]

    def states(self) -> list[StateSummary]:
        """By operator and name."""
        found: dict[tuple[str, str], list[_Found]] = {}
        for task in self.manifest.tasks:
            for one in _states_of(task):
                found.setdefault((one.operator, one.name), []).append(one)
        summaries = []
        for (operator, name), parts in sorted(found.items()):
            sizes = [part.size_bytes for part in parts]
            size = None if None in sizes else sum(size for size in sizes if size is not None)
            tasks = len({part.subtask for part in parts})
            summaries.append(StateSummary(operator, name, parts[0].kind, parts[0].form, tasks, size))
        return summaries

    def summary_of(self, operator: str, state: str) -> StateSummary:
        """Raises `ConfigurationError` naming what there is instead."""
        summaries = self.states()
        for summary in summaries:
            if (summary.operator, summary.name) == (operator, state):
                return summary
        there = ", ".join(f"{summary.operator}/{summary.name}" for summary in summaries)
        raise ConfigurationError(
            f'the snapshot has no state "{state}" of operator "{operator}"',
            detail=f"it has {there or 'none'}",
            hint=f"cutwater state list {self.url}",
        )

    def parts_of(self, operator: str, state: str) -> list[StatePart]:
        """Where the rows of a state are; each can be read by another process."""
        self.summary_of(operator, state)
        parts = []
        for task in self.manifest.tasks:
            mine = msgspec.structs.replace(
                task,
                parts=tuple(part for part in task.parts if (part.operator, part.name) == (operator, state)),
                databases=tuple(
                    database for database in task.databases if database.operator == operator and state in database.kinds
                ),
                tables=tuple(table for table in task.tables if (table.operator, table.name) == (operator, state)),
            )
            if mine.parts or mine.databases or mine.tables:
                parts.append(StatePart(self.url, operator, state, mine))
        return parts


class StatePart(msgspec.Struct, frozen=True):
    """The rows of one state in one task of a snapshot."""

    url: str
    operator: str
    state: str
    task: TaskSnapshot


def open_snapshot(path: str) -> OpenSnapshot:
    """Reads the manifest; raises `SnapshotDamagedError` if there is none, or it is not as it was written."""
    url = absolute_url(path)
    root, folder = split_url(url)
    return OpenSnapshot(url, load_manifest(open_storage(root), folder))


@dataclass(frozen=True, slots=True)
class _Found:
    operator: str
    name: str
    kind: str
    form: str
    subtask: int
    size_bytes: int | None


def _states_of(task: TaskSnapshot) -> Iterator[_Found]:
    for part in task.parts:
        size = sum(chunk.length for chunk in part.chunks)
        kind, form = (part.form, "chunks") if part.kind == "keyed" else (part.kind, "items")
        yield _Found(part.operator, part.name, kind, form, task.subtask, size)
    for database in task.databases:
        for name, kind in database.kinds.items():
            yield _Found(database.operator, name, kind, "database", task.subtask, None)
    for table in task.tables:
        yield _Found(table.operator, table.name, table.kind, "table", task.subtask, table.size_bytes)

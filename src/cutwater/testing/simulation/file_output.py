"""What becomes of a job whose output goes into files?

The sinks of the job are the real ones, on simulated files. Each life of the job is started by a person who says where
its output is to go: into the folder of the last life or into another one, and whether it may add to what is there.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import datetime
from random import Random
from typing import Any

from cutwater.api.dataflow import Build
from cutwater.batches import make_row
from cutwater.connectors import sinks
from cutwater.connectors.file_sink import FileSink, IfExists
from cutwater.connectors.prepared_files import PENDING, PUBLISHED, decode_prepared
from cutwater.graph.model import LogicalGraph, NodeKind
from cutwater.operators.sink import WriterOperator
from cutwater.protocol.modes import CheckpointMode
from cutwater.runtime.recovering import History
from cutwater.testing.simulation.conditions import Place
from cutwater.testing.simulation.files import SCHEME, SimulatedFiles
from cutwater.testing.simulation.lineage import Part

#: A job whose sinks could be files has them so often.
RATE = 0.4
SAME_FOLDER_RATE = 0.5
SAME_FOLDER_WHEN_ANEW_RATE = 0.85
APPEND_RATE = 0.6
#: So that a writer fills one or several files between two barriers.
ROLL_BYTES = (60, 300, 1 << 20)
COMMIT_INTERVAL_SECONDS = 0.02
FOLDERS = ("a", "b")
#: A file's run, subtask, attempt and number, as its name tells them.
_FINAL = re.compile(r"-(\d+)-rlife(\d+)-a(\d+)-(\d+)\.")
_PENDING = re.compile(r"-r([^-]+)-\d+-a(\d+)-\d+\.")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT")


class FileOutput:
    """`Parts` of file sinks. A part is a folder and the name under which a file is published there."""

    def __init__(self, files: SimulatedFiles, random: Random) -> None:
        self._files = files
        self._random = random
        self._roll_bytes = random.choice(ROLL_BYTES)
        self.folder = FOLDERS[0]
        self.if_exists: IfExists = "append"
        self._run = ""
        self._read: dict[Part, list[Any]] = {}

    # Where it goes.

    def moves(self, *, starts_anew: bool) -> Place:
        """Someone decides where the output of the next life is to go."""
        is_same = self._random.random() < (SAME_FOLDER_WHEN_ANEW_RATE if starts_anew else SAME_FOLDER_RATE)
        self.if_exists = "append" if self._random.random() < APPEND_RATE else "refuse"
        if not is_same:
            self.folder = FOLDERS[1 - FOLDERS.index(self.folder)]
        return Place.SAME if is_same else Place.OTHER

    def placed(self, graph: LogicalGraph, mode: CheckpointMode) -> LogicalGraph:
        nodes = dict(graph.nodes)
        for uid, node in graph.nodes.items():
            if node.kind is NodeKind.SINK:
                sink = self._sink()
                build = Build(WriterOperator, (sink, mode, COMMIT_INTERVAL_SECONDS))
                nodes[uid] = replace(node, connector=sink, build=build)
        return LogicalGraph(nodes, list(graph.edges))

    def _sink(self) -> FileSink:
        return sinks.json_lines(_path(self.folder), roll_bytes=self._roll_bytes, if_exists=self.if_exists)

    def life_begins(self, owner: int, history: History) -> None:
        self._run = history.run or ""

    @property
    def has_output_here(self) -> bool:
        return any(part.startswith(f"{self.folder}/") for part in self.visible())

    # What is there.

    def visible(self) -> frozenset[Part]:
        return frozenset(
            f"{folder}/{name}"
            for folder in FOLDERS
            for name in self._files.inside(_path(folder))
            if not name.startswith(".")
        )

    def records(self, part: Part) -> list[Any] | None:
        if part not in self._read:
            folder, _, name = part.rpartition("/")
            content = self._files.content(f"{_path(folder)}/{name}")
            if content is None:
                content = self._files.content(f"{_path(folder)}/{PENDING}/{pending_name(name)}")
            if content is None:
                return None
            self._read[part] = [from_json(line) for line in content.splitlines()]
        return self._read[part]

    def prepared(self, sink: str, committable: bytes) -> Part:
        file = decode_prepared(committable)
        return f"{file.folder.removeprefix(f'{SCHEME}://')}/{file.final}"

    def published_as(self, part: Part) -> Part:
        return f"{self.folder}/{name_of(part)}"

    def in_order(self, parts: frozenset[Part]) -> list[Part]:
        return sorted(parts, key=_age)

    def left_pending(self, attempt: int) -> list[str]:
        names = self._files.inside(f"{_path(self.folder)}/{PENDING}")
        found = [(match, name) for name in names if (match := _PENDING.search(name))]
        return [name for match, name in found if match[1] == self._run and int(match[2]) >= attempt]


def _path(folder: str) -> str:
    return f"{SCHEME}://{folder}"


def name_of(part: Part) -> str:
    """Under which it is published in any folder."""
    return part.rpartition("/")[2]


def pending_name(final: str) -> str:
    """Of the file before it was published."""
    job, uid, subtask, run, attempt, number = final.removeprefix(PUBLISHED).split("-")
    number, _, extension = number.partition(".")
    return f"{job}-{uid}-{run}-{int(subtask)}-{attempt}-{int(number)}.{extension}"


def _age(part: Part) -> tuple[int, ...]:
    match = _FINAL.search(part)
    assert match is not None, part
    subtask, life, attempt, number = map(int, match.groups())
    return life, attempt, subtask, number


def from_json(line: bytes) -> Any:
    """The record of a line as it was written: an object is a row, an array a tuple."""
    return _record(json.loads(line))


def _record(value: Any) -> Any:
    match value:
        case dict():
            return make_row(tuple(value), map(_record, value.values()))
        case list():
            return tuple(map(_record, value))
        case str() if _TIME.match(value):
            return datetime.fromisoformat(value)
    return value

"""Do the files that a manifest names lie where it may name them?

A manifest may come from anywhere. Its names become paths of files to read, to write and to delete, so each must be one
that we could have given: relative, of known folders, made of the characters that `names.sanitise` leaves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from cutwater.snapshots.format import Manifest, TaskSnapshot

_LENGTH_MAX = 1_000
_CHARACTERS = r"[A-Za-z0-9_.~%+-]"
_SEGMENT = rf"(?!\.{{1,2}}(?:/|$)){_CHARACTERS}{{1,255}}"
_NAME = re.compile(_SEGMENT)
_IN_FOLDER = re.compile(rf"{_SEGMENT}(?:/{_SEGMENT}){{0,7}}")
_SHARED = re.compile(rf"shared/{_CHARACTERS}+-c\d{{1,18}}-a\d{{1,18}}-{_CHARACTERS}+")


def misplaced_name(manifest: Manifest) -> str | None:
    """The first name in the manifest that could lead out of its folder; None: there is none."""
    for task in manifest.tasks:
        for name, pattern in _names_of(task):
            if len(name) > _LENGTH_MAX or pattern.fullmatch(name) is None:
                return name
    return None


def _names_of(task: TaskSnapshot) -> Iterator[tuple[str, re.Pattern[str]]]:
    if task.file is not None:
        yield task.file.path, _NAME
    for table in task.tables:
        yield table.path, _IN_FOLDER
    for attached in task.attached:
        for piece in attached.pieces:
            yield piece.path, _IN_FOLDER
    for database in task.databases:
        for name in database.small:
            yield name, _NAME
        for file in database.files:
            yield file.name, _NAME
            yield file.path, _SHARED

"""Which epochs is the outside done with?

An empty file for each attempt that has written, named after the newest of its epochs that was applied:

    {folder}/.applied/r{run}-a{attempt}-{epoch}

The epochs of an attempt are applied in order, so all before it were applied, too.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress

import msgspec

from cutwater.connectors.file_system import file_system_of
from cutwater.connectors.prepared_files import quote

_MARK = re.compile(r"r(.+)-a(\d+)-(\d+)")


class Epoch(msgspec.Struct, frozen=True, array_like=True, order=True):
    """What all tasks of a sink wrote between two barriers. Numbers grow from attempt to attempt."""

    run: str
    attempt: int
    number: int


class AppliedEpochs:
    """The marks in one folder. Every method may block, and raises `OSError`."""

    def __init__(self, folder: str) -> None:
        self._folder = os.path.join(folder, ".applied")
        self._files = file_system_of(folder)

    def __contains__(self, epoch: Epoch) -> bool:
        return any(number >= epoch.number for number in self._numbers(epoch))

    def add(self, epoch: Epoch) -> None:
        """From now on, also after a crash of the machine."""
        older = [number for number in self._numbers(epoch) if number < epoch.number]
        self._files.make_folder(self._folder)
        with suppress(FileExistsError):
            self._files.create(self._path(epoch, epoch.number)).close()
        self._files.sync_folder(self._folder)
        for number in older:
            self._files.delete(self._path(epoch, number))

    def _numbers(self, epoch: Epoch) -> list[int]:
        found = map(_MARK.fullmatch, self._files.names(self._folder))
        whose = quote(epoch.run), str(epoch.attempt)
        return [int(mark[3]) for mark in found if mark is not None and (mark[1], mark[2]) == whose]

    def _path(self, epoch: Epoch, number: int) -> str:
        return os.path.join(self._folder, f"r{quote(epoch.run)}-a{epoch.attempt}-{number}")

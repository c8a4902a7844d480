"""How is a file of output called, from its first record until it is published, and whose is it?

    {folder}/.pending/{job}-{uid}-r{run}-{subtask}-a{attempt}-{number}.{extension}        being written, or prepared
    {folder}/part-{job}-{uid}-{subtask}-r{run}-a{attempt}-{number}.{extension}            published

The run is what makes a name unlike all others: attempts of a job are numbered from 1 again when its checkpoints were
deleted, when it has no storage, or when another storage knows a job of the same id.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

import msgspec

from cutwater.errors import SnapshotDamagedError
from cutwater.protocol.ids import AttemptNumber

PENDING = ".pending"
PUBLISHED = "part-"
_NAME = re.compile(r"[A-Za-z0-9_.%~-]+")


class PreparedFile(msgspec.Struct, frozen=True):
    """A committable: a finished file, where it is, and the name under which it will appear."""

    pending: str
    final: str
    size_bytes: int
    folder: str = ""
    """The sink's folder when it was prepared; the job may be restored with another one. Empty: not known."""
    checksum: str = ""


def decode_prepared(committable: bytes) -> PreparedFile:
    """Raises `SnapshotDamagedError` for what no writer of files has encoded: no name leads out of its folder."""
    try:
        file = msgspec.msgpack.decode(committable, type=PreparedFile)
    except msgspec.DecodeError as error:
        raise SnapshotDamagedError("prepared output is not that of a file sink", detail=str(error)) from error
    for name in (file.pending, file.final):
        if not _NAME.fullmatch(name) or name in (".", ".."):
            raise SnapshotDamagedError("prepared output names no file of its folder", detail=repr(name))
    if not file.final.startswith(PUBLISHED):
        raise SnapshotDamagedError("prepared output has a name that no sink gives", detail=repr(file.final))
    return file


@dataclass(frozen=True, slots=True)
class Owner:
    """One sink in one run of a job: its attempts, but no other run, may delete each other's pending files."""

    job_id: str
    uid: str
    run: str

    def pending(self, *, subtask: int, attempt: int, number: int, extension: str) -> str:
        return f"{self._prefix}{subtask}-a{attempt}-{number}.{extension}"

    def final(self, *, subtask: int, attempt: int, number: int, extension: str) -> str:
        whose = f"{quote(self.job_id)}-{quote(self.uid)}-{subtask:05d}-r{quote(self.run)}"
        return f"{PUBLISHED}{whose}-a{attempt}-{number:06d}.{extension}"

    def is_left_over(self, pending: str, *, before: AttemptNumber | None) -> bool:
        """Whether it is a pending file of an attempt before this one (None: of any)."""
        # The whole name: the prefix of sink "out" also begins the files of a sink "out-2".
        match = re.fullmatch(re.escape(self._prefix) + r"\d+-a(\d+)-\d+\..*", pending)
        return match is not None and (before is None or int(match[1]) < before)

    @property
    def _prefix(self) -> str:
        return f"{quote(self.job_id)}-{quote(self.uid)}-r{quote(self.run)}-"


def quote(name: str) -> str:
    """The name as a part of a file name: without -, and different for different names; long ones are shortened."""
    quoted = re.sub(rb"[^A-Za-z0-9_.]", lambda match: b"%%%02X" % match.group()[0], name.encode()).decode()
    if len(quoted) <= 64:
        return quoted
    return f"{quoted[:40]}~{hashlib.sha256(name.encode()).hexdigest()[:20]}"

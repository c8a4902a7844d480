"""How is a file of output called, from its first record until it is published, and whose is it?

    {folder}/.pending/{job}-{uid}-r{run}-{subtask}-a{attempt}-{number}.{extension}        being written, or prepared
    {folder}/part-{job}-{uid}-{subtask}-r{run}-a{attempt}-{number}.{extension}            published
    {folder}/part-{job}-{uid}-{subtask}-r{run}-a{attempt}-{first}-{last}.{extension}      several, published as one

Published files of a partitioned sink are in folders below, `{folder}/day=2026-11-17/`.

The run is what makes a name unlike all others: attempts of a job are numbered from 1 again when its checkpoints were
deleted, when it has no storage, or when another storage knows a job of the same id.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from cutwater.connectors.hive_folders import is_inside
from cutwater.errors import SnapshotDamagedError
from cutwater.protocol.ids import AttemptNumber

PENDING = ".pending"
PUBLISHED = "part-"
#: What files are made of, and what their names end with.
FORMATS = {"text": "txt", "json": "jsonl", "csv": "csv", "parquet": "parquet", "avro": "avro"}
_NAME = re.compile(r"[A-Za-z0-9_.%~-]+")
_NUMBER = re.compile(r"-a\d+-(\d+)\.[a-z.]+$")
_RANGE = re.compile(r"-a\d+-(\d+)-(\d+)\.[a-z.]+$")


class PreparedFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """A committable: a finished file, where it is, and the name under which it will appear."""

    pending: str
    final: str
    size_bytes: int
    folder: str = ""
    """The sink's folder when it was prepared; the job may be restored with another one. Empty: not known."""
    checksum: str = ""
    partition: str = ""
    """Folders below the sink's, one below the other, in which it will appear."""
    header_bytes: int = 0
    """What a file that follows in the same format begins with, too."""
    held: bool = False
    """It waits to become a piece of a larger file. Only a recovery publishes it by itself."""


class RolledFile(msgspec.Struct, frozen=True):
    """A committable: finished files that will appear as one. The name tells the numbers of the first and the last."""

    final: str
    pieces: tuple[PreparedFile, ...]
    format: str

    @property
    def folder(self) -> str:
        return self.pieces[0].folder

    @property
    def partition(self) -> str:
        return self.pieces[0].partition


Committable = PreparedFile | RolledFile


def rolled(pieces: Sequence[PreparedFile], format: str) -> Committable:  # noqa: A002
    """These, in the order in which they were written, as one file."""
    if len(pieces) == 1:
        return pieces[0]
    first, last = _NUMBER.search(pieces[0].final), _NUMBER.search(pieces[-1].final)
    assert first is not None, "a file has a number"
    assert last is not None, "a file has a number"
    final = f"{pieces[0].final[: first.end(1)]}-{last[1]}{pieces[0].final[first.end(1) :]}"
    return RolledFile(final, tuple(pieces), format)


def is_piece_of(final: str, other: str) -> bool:
    """Whether a file of this name is in another one that was rolled, as the names tell it."""
    piece, whole = _NUMBER.search(final), _RANGE.search(other)
    if piece is None or whole is None or final[: piece.start(1)] != other[: whole.start(1)]:
        return False
    return int(whole[1]) <= int(piece[1]) <= int(whole[2])


def decode_prepared(committable: bytes) -> Committable:
    """Raises `SnapshotDamagedError` for what no writer of files has encoded: no name leads out of its folder."""
    try:
        found = msgspec.msgpack.decode(committable)
        is_rolled = isinstance(found, dict) and "pieces" in found
        file = msgspec.convert(found, RolledFile) if is_rolled else msgspec.convert(found, PreparedFile)
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as error:
        raise SnapshotDamagedError("prepared output is not that of a file sink", detail=str(error)) from error
    if isinstance(file, RolledFile):
        _check_rolled(file)
    else:
        _check_prepared(file)
    return file


def _check_rolled(file: RolledFile) -> None:
    _check_names(file.final)
    for piece in file.pieces:
        _check_prepared(piece)
    if not file.pieces or len({(piece.folder, piece.partition) for piece in file.pieces}) != 1:
        raise SnapshotDamagedError("prepared output has pieces that don't belong together", detail=repr(file.final))
    if file.format not in FORMATS:
        raise SnapshotDamagedError("prepared output has no known format", detail=repr(file.format))


def _check_prepared(file: PreparedFile) -> None:
    _check_names(file.pending, file.final)
    if file.partition and not is_inside(file.partition):
        raise SnapshotDamagedError("prepared output names no folder of its sink", detail=repr(file.partition))


def _check_names(*names: str) -> None:
    for name in names:
        if not _NAME.fullmatch(name) or name in (".", ".."):
            raise SnapshotDamagedError("prepared output names no file of its folder", detail=repr(name))
    if not names[-1].startswith(PUBLISHED):
        raise SnapshotDamagedError("prepared output has a name that no sink gives", detail=repr(names[-1]))


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

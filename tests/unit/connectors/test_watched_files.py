"""What does a job that watches a folder read of files that grow, go, come again or are replaced, in any driver?"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from cutwater.connectors.contract import ReaderContext
from cutwater.connectors.file_source import FileSource, files
from cutwater.errors import StorageError
from cutwater.protocol.known_origins import FORGOTTEN_AFTER_LOOKS
from cutwater.protocol.splits import AssignSplits, Split, SplitAssigner, SplitRequested, SplitsDiscovered
from cutwater.runtime.sources import decode_assigner, encode_assigner


class Driver:
    """Looks and reads as the runtime does, with one task."""

    def __init__(self, folder: Path, state: bytes | None = None, *, split_bytes: int = 1000) -> None:
        self._asked = False
        self.source: FileSource = files(folder, watch=True, split_bytes=split_bytes)
        self.assigner = (
            SplitAssigner(1, eager=False)
            if state is None
            else SplitAssigner.restored(decode_assigner(state), 1, eager=False)
        )

    def look(self) -> list[str]:
        """The lines of all that is new."""
        found = self.source.discover_new(1, self.assigner.known)
        effects = self.assigner.handle(SplitsDiscovered(found.splits, found.complete, found.gone))
        lines: list[str] = []
        while True:
            assigned = [effect for effect in effects if isinstance(effect, AssignSplits)]
            if not assigned and self._asked:
                return lines
            lines += [line for effect in assigned for split in effect.splits for line in self._read(split)]
            effects, self._asked = self.assigner.handle(SplitRequested(0)), True

    def restarted(self, folder: Path) -> Driver:
        return Driver(folder, encode_assigner(self.assigner.snapshot()))

    def _read(self, split: Split) -> list[str]:
        reader, lines = self.source.reader(split, None, ReaderContext()), []
        while not reader.finished:
            batch = reader.read(1000, 0.0)
            lines += [] if batch is None else batch.values
        reader.close()
        return lines


def numbered(*numbers: int) -> str:
    return "".join(f"line {number:04d}\n" for number in numbers)


def test_a_file_that_has_grown_is_not_read_from_its_middle_by_a_new_driver(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text(numbered(*range(150)))
    first = Driver(tmp_path)
    assert len(first.look()) == 150
    file.write_text(numbered(*range(500)))
    assert (first.look(), first.restarted(tmp_path).look()) == ([], [])


def test_a_new_driver_reads_what_appeared_since_and_nothing_twice(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(numbered(1))
    first = Driver(tmp_path)
    first.look()
    (tmp_path / "b.txt").write_text(numbered(2))
    assert first.restarted(tmp_path).look() == ["line 0002"]


def test_a_file_that_was_truncated_before_it_was_read_is_an_error_that_names_it(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text(numbered(1, 2))
    driver = Driver(tmp_path)
    (split,) = driver.source.discover(1).splits
    file.write_text("")
    with pytest.raises(StorageError, match="shrunk"):
        driver.source.reader(split, None, ReaderContext())


def test_a_file_of_a_name_that_was_long_gone_is_new_and_its_splits_have_ids_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "other.txt").write_text(numbered(0))
    file = tmp_path / "a.txt"
    file.write_text(numbered(1))
    driver = Driver(tmp_path)
    before = {split.id for split in driver.source.discover(1).splits}
    driver.look()
    file.unlink()
    for _ in range(FORGOTTEN_AFTER_LOOKS):
        assert driver.look() == []
    file.write_text(numbered(2))
    os.utime(file, ns=(1, 1))
    again = {split.id for split in driver.source.discover(1).splits}
    assert len(again & before) == 1
    assert driver.look() == ["line 0002"]


def test_a_file_that_is_replaced_while_it_is_known_is_not_read_again(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(numbered(1))
    driver = Driver(tmp_path)
    driver.look()
    (tmp_path / "new").write_text(numbered(2))
    os.replace(tmp_path / "new", tmp_path / "a.txt")
    assert (driver.look(), driver.restarted(tmp_path).look()) == ([], [])


def test_a_folder_that_is_not_mounted_for_a_while_is_not_read_twice(tmp_path: Path) -> None:
    folder = tmp_path / "mounted"
    folder.mkdir()
    (folder / "a.txt").write_text(numbered(1))
    driver = Driver(folder)
    driver.look()
    folder.rename(tmp_path / "elsewhere")
    folder.mkdir()
    for _ in range(2 * FORGOTTEN_AFTER_LOOKS):
        driver.look()
    folder.rmdir()
    (tmp_path / "elsewhere").rename(folder)
    assert driver.look() == []


def test_an_empty_file_is_read_when_it_has_content(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("")
    driver = Driver(tmp_path)
    assert driver.look() == []
    (tmp_path / "a.txt").write_text(numbered(1))
    assert driver.look() == ["line 0001"]


def test_what_a_snapshot_of_an_earlier_version_knows_is_not_read_again(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text(numbered(*range(150)))
    (tmp_path / "b.txt").write_text(numbered(7))
    known = [f"{file}#0", f"{file}#1000"]
    earlier = msgspec.msgpack.encode(([], known, False))
    assert Driver(tmp_path, earlier).look() == ["line 0007"]


def test_unread_splits_of_an_earlier_version_are_read(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text(numbered(*range(150)))
    splits = [(split.id, split.payload) for split in files(file, split_bytes=1000).discover(1).splits]
    earlier = msgspec.msgpack.encode((splits[1:], [split_id for split_id, _ in splits], False))
    assert Driver(tmp_path, earlier).look() == [f"line {number:04d}" for number in range(100, 150)]


def test_a_snapshot_knows_a_hundred_thousand_files_in_a_megabyte() -> None:
    assigner = SplitAssigner(1, eager=True)
    paths = [f"/data/incoming/2026-11-16/events-{number:08d}.jsonl" for number in range(100_000)]
    splits = tuple(Split(f"{path}#0", b"", origin=path) for path in paths)
    assigner.handle(SplitsDiscovered(splits, complete=False))
    assert len(encode_assigner(assigner.snapshot())) < 1_000_100


def test_a_bounded_source_that_was_listed_need_not_be_remembered() -> None:
    assigner = SplitAssigner(1, eager=True)
    assigner.handle(SplitsDiscovered((Split("a", b""),), complete=True))
    assert len(encode_assigner(assigner.snapshot())) < 10

from __future__ import annotations

import io
import random

import pytest

from cutwater.connectors.ranged_reader import BUFFER_BYTES, WINDOW_BYTES, open_ranged

CONTENT = random.Random(1).randbytes(3 * WINDOW_BYTES).replace(b"\n", b"x")
LINES = b"".join(CONTENT[start : start + 100_003] + b"\n" for start in range(0, len(CONTENT), 100_003))


class Remote:
    """Knows what was fetched of it."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.fetched: list[tuple[int, int]] = []

    def fetch(self, start: int, length: int) -> bytes:
        assert start + length <= len(self.content), "HDFS would not survive that"
        self.fetched.append((start, length))
        return self.content[start : start + length]


def test_lines_are_those_of_the_file() -> None:
    remote = Remote(LINES)
    with open_ranged(remote.fetch, len(LINES)) as file:
        assert file.readlines() == io.BytesIO(LINES).readlines()


def test_who_reads_on_asks_once_for_each_window() -> None:
    remote = Remote(LINES)
    with open_ranged(remote.fetch, len(LINES)) as file:
        while file.read(10_000):
            pass
    assert len(remote.fetched) == 1 + -(-(len(LINES) - BUFFER_BYTES) // WINDOW_BYTES)


def test_who_jumps_gets_little_more_than_was_asked_for() -> None:
    remote = Remote(LINES)
    with open_ranged(remote.fetch, len(LINES)) as file:
        file.seek(-8, io.SEEK_END)
        file.read(8)
        file.seek(5_000_000)
        assert file.read(100) == LINES[5_000_000:5_000_100]
    assert sum(length for _, length in remote.fetched) <= 8 + BUFFER_BYTES


def test_nothing_is_behind_the_end() -> None:
    with open_ranged(Remote(b"abc").fetch, 3) as file:
        file.seek(3)
        assert file.read() == b""


def test_a_file_that_has_become_shorter_is_an_error() -> None:
    with open_ranged(lambda start, length: b"", 3) as file, pytest.raises(OSError, match="has changed"):
        file.read()

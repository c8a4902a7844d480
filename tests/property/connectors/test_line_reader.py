"""Is every line read once, whatever is in the file, however it is divided, and wherever a reader goes on?"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from cutwater.batches import rows_of
from cutwater.connectors import line_reader
from cutwater.connectors.file_parts import FilePart
from cutwater.connectors.line_reader import LineReader

contents = st.lists(st.sampled_from([b"a", b"bc", b"\xc3\xa4", b"\xf0\x9f\x8c\x8a", b"\r", b"\n", b"\r\n"])).map(
    b"".join
)
damaged = st.lists(st.sampled_from([b"a", b"\xff", b"\xc3", b"\r", b"\n", b"\r\n"])).map(b"".join)


def lines_of(content: bytes) -> list[bytes]:
    lines = content.split(b"\n")
    last = lines.pop()
    return [line.removesuffix(b"\r") for line in lines] + ([last] if last else [])


@given(contents, st.lists(st.integers(0, 40), max_size=3), st.integers(1, 5), st.integers(1, 9), st.data())
def test_each_line_is_read_once(
    content: bytes, cuts: list[int], limit: int, block_bytes: int, data: st.DataObject
) -> None:
    with TemporaryDirectory() as folder, patch.object(line_reader, "_BLOCK_BYTES", block_bytes):
        path = Path(folder, "file")
        path.write_bytes(content + b"appended later\n")
        bounds = sorted({0, len(content), *(cut for cut in cuts if cut < len(content))})
        found: list[str] = []
        for start, end in pairwise(bounds):
            part = FilePart(str(path), size_bytes=len(content), start=start, end=end)
            reader = LineReader(part, None)
            while not reader.finished:
                if data.draw(st.booleans()):
                    position = reader.position
                    reader.close()
                    reader = LineReader(part, position)
                batch = reader.read(limit, 0.0)
                found += [] if batch is None else rows_of(batch)
            reader.close()
    assert found == [line.decode() for line in lines_of(content)]


@given(damaged, st.integers(1, 5), st.integers(1, 9))
def test_what_is_not_text_is_handed_on_at_its_place(content: bytes, limit: int, block_bytes: int) -> None:
    with TemporaryDirectory() as folder, patch.object(line_reader, "_BLOCK_BYTES", block_bytes):
        path = Path(folder, "file")
        path.write_bytes(content)
        reader = LineReader(
            FilePart(str(path), size_bytes=len(content), start=0, end=len(content)), None, tolerant=True
        )
        found: list[bytes] = []
        while not reader.finished:
            batch = reader.read(limit, 0.0)
            good = [] if batch is None else [value.encode() for value in rows_of(batch)]
            bad = [(one.position, one.raw) for one in reader.take_unreadable()]
            found += good
            for position, raw in bad:
                assert content[position:].startswith(raw)
                found.append(raw)
        reader.close()
    assert sorted(line.rstrip(b"\r") for line in found) == sorted(line.rstrip(b"\r") for line in lines_of(content))

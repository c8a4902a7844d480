"""Does a manifest or a journal that anyone may have written lead to anything but one of our errors?"""

from __future__ import annotations

import contextlib
import json
import pickle
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.fuzz.conftest import EXPECTED, FUZZ
from tests.fuzz.mutations import damaged, mutated
from typer.testing import CliRunner

from cutwater.cli.main import app
from cutwater.inspection.rows import read, readable
from cutwater.inspection.snapshots import open_snapshot
from cutwater.inspection.storages import orphans_below, problem_of, snapshots_below
from cutwater.snapshots.checksums import checksum_of
from cutwater.snapshots.disposal import dispose
from cutwater.snapshots.format import (
    FORMAT_VERSION,
    Chunk,
    DatabaseFiles,
    DataFile,
    Manifest,
    SharedFile,
    StatePart,
    StateTable,
    TaskSnapshot,
    VertexShape,
)
from cutwater.snapshots.storage import MemoryStorage
from cutwater.snapshots.store import SnapshotStore

PAIRS = pickle.dumps([("key", {"a": 1}), ("other", print)], 5)
CHUNKS = (Chunk(0, 0, len(PAIRS)),)
MANIFEST = Manifest(
    FORMAT_VERSION,
    "job",
    "word count",
    7,
    1,
    "savepoint",
    "2026-01-01",
    (VertexShape("op", ("op",), 1, 128),),
    (
        TaskSnapshot("op", 0, (StatePart("op", "n", "keyed", CHUNKS, "map"),), inline=PAIRS),
        TaskSnapshot(
            "op", 1, (StatePart("op", "n", "keyed", CHUNKS, "value"),), file=DataFile("op-1-a1.state", 1, "x")
        ),
        TaskSnapshot("op", 2, (StatePart("op", "items", "split", CHUNKS),), inline=PAIRS),
        TaskSnapshot(
            "op",
            3,
            (),
            inline=b"",
            databases=(
                DatabaseFiles(
                    "op",
                    0,
                    9,
                    (SharedFile("1.sst", "shared/t-0-0-c1-a1-1.sst", 1, "x"),),
                    {"CURRENT": b"x"},
                    {"m": "map"},
                ),
            ),
            tables=(StateTable("op", "t", "value", 1, 0, 9, "tables/op/t/op-3-0-a1.parquet", 1, "x"),),
        ),
    ),
    {"source": b"\x90"},
)
BODY: dict[str, Any] = json.loads(msgspec.json.encode(MANIFEST))


def sealed(body: Any) -> bytes:
    """With the right checksum: a stranger knows how to compute it."""
    text = json.dumps(body).encode()
    return b'{"version": 1, "checksum": "%s", "body": %s}' % (checksum_of(text).encode(), text)


def look_into(root: Path, data: bytes) -> None:
    """All that the command line does with a snapshot, but for what needs a terminal."""
    folder = root / "job" / "chk-7"
    folder.mkdir(parents=True, exist_ok=True)
    for file in folder.glob("manifest*"):
        file.unlink()
    (folder / "manifest-a1.json").write_bytes(data)
    with contextlib.suppress(*EXPECTED):
        snapshots_below(str(root))
    with contextlib.suppress(*EXPECTED):
        orphans_below(str(root))
    with contextlib.suppress(*EXPECTED):
        snapshot = open_snapshot(str(folder))
        problem_of(snapshot)
        for state in snapshot.states():
            for part in snapshot.parts_of(state.operator, state.name):
                with contextlib.suppress(*EXPECTED):
                    [readable(batch).to_pylist() for batch in read(part)]
    with contextlib.suppress(*EXPECTED):
        dispose(str(folder))


@FUZZ
@given(body=mutated(BODY))
def test_a_changed_manifest(watch: Path, body: Any):
    look_into(watch, sealed(body))


@FUZZ
@given(data=damaged(sealed(BODY)) | st.binary(max_size=200))
@example(data=b"[" * 100_000)
@example(data=b'{"version":1,"checksum":"","body":' + b"[" * 100_000)
def test_a_damaged_manifest(watch: Path, data: bytes):
    look_into(watch, data)


@FUZZ
@given(
    data=damaged(PAIRS) | st.binary(max_size=100), form=st.sampled_from(["value", "map", "pane", "timer", "columns"])
)
def test_damaged_state(watch: Path, data: bytes, form: str):
    part = StatePart("op", "n", "keyed", (Chunk(0, 0, len(data)),), form)
    task = TaskSnapshot("op", 0, (part,), inline=data)
    look_into(watch, sealed(json.loads(msgspec.json.encode(msgspec.structs.replace(MANIFEST, tasks=(task,))))))


@settings(FUZZ, max_examples=FUZZ.max_examples // 8)  # each is three commands
@given(body=mutated(BODY))
def test_the_command_line_shows_a_changed_manifest_or_what_is_wrong_with_it(watch: Path, body: Any):
    folder = watch / "job" / "chk-7"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "manifest-a1.json").write_bytes(sealed(body))
    for command in (["list", str(folder)], ["verify", str(folder)], ["show", str(folder), "op", "n"]):
        result = CliRunner().invoke(app, ["state", *command])
        assert result.exception is None or isinstance(result.exception, (*EXPECTED, SystemExit)), result.exception


ENTRIES = [
    {"entry": "attempt_claimed", "attempt": 1},
    {"entry": "snapshot_completed", "checkpoint": 7, "attempt": 1, "path": "job/chk-7"},
    {"entry": "summary", "attempt": 1, "completed": [[7, 1, "job/chk-7"]]},
    {"entry": "attempt_claimed", "attempt": 2},
]


def use_journal(entries: list[bytes]) -> None:
    """All that a driver does with one that it finds."""
    storage = MemoryStorage()
    for index, data in enumerate(entries):
        storage.write(f"job/journal/{index:010d}.json", data)
    storage.write("job/chk-7/manifest-a1.json", sealed(BODY))
    storage.write("not-ours", b"x")
    store = SnapshotStore(storage, "job")
    with contextlib.suppress(*EXPECTED):
        store.verify(7)
    with contextlib.suppress(*EXPECTED):
        store.claim_attempt()
        store.still_there(store.journal())
        store.discard(7)
        store.sweep()
        store.discard_all()
    assert storage.read("not-ours") == b"x"


@FUZZ
@given(entries=mutated(ENTRIES))
def test_a_changed_journal(watch: Path, entries: Any):
    use_journal([sealed(entry) for entry in entries] if isinstance(entries, list) else [sealed(entries)])


@FUZZ
@given(entries=st.lists(st.sampled_from(ENTRIES).map(sealed).flatmap(damaged) | st.binary(max_size=50), max_size=3))
def test_a_damaged_journal(watch: Path, entries: list[bytes]):
    use_journal(entries)

"""Can a snapshot be looked into without trust in whoever made it?"""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rocksdict import Options, Rdict
from typer.testing import CliRunner

from cutwater.canonical import StateRows, to_batch
from cutwater.cli.main import app
from cutwater.errors import ConfigurationError, CutwaterError, SnapshotDamagedError
from cutwater.inspection.building import savepoint_builder
from cutwater.inspection.rows import raw, read, readable
from cutwater.inspection.snapshots import open_snapshot
from cutwater.snapshots.checksums import checksum_of
from cutwater.snapshots.documents import seal
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
from cutwater.state.rocksdb.database import Database
from cutwater.state.rocksdb.encoding import key_prefix, packed, state_prefix


class Touch:
    """Makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self._path),)


def publish(folder: Path, *tasks: TaskSnapshot, attempt: int = 1) -> str:
    vertices = (VertexShape("op", ("op",), 1, 128),)
    manifest = Manifest(FORMAT_VERSION, "job", "job", 7, attempt, "savepoint", "2026-01-01", vertices, tasks, {})
    folder.mkdir(exist_ok=True)
    (folder / f"manifest-a{attempt}.json").write_bytes(seal(manifest))
    return str(folder)


def chunks(folder: Path, data: bytes, *, form: str = "value") -> str:
    part = StatePart("op", "count", "keyed", (Chunk(0, 0, len(data)),), form)
    return publish(folder, TaskSnapshot("op", 0, (part,), inline=data))


def database(folder: Path, small: dict[str, bytes], *files: SharedFile) -> str:
    found = DatabaseFiles("op", 0, 127, files, small, {"count": "value"})
    return publish(folder, TaskSnapshot("op", 0, (), inline=b"", databases=(found,)))


def rows(path: str, **options: Any) -> list[dict[str, Any]]:
    parts = open_snapshot(path).parts_of("op", "count")
    return [row for part in parts for batch in read(part, **options) for row in readable(batch).to_pylist()]


def cutwater(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["state", *arguments], env={"COLUMNS": "200"})
    return result.exit_code, result.output


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    return tmp_path / "sprung"


def test_no_command_runs_what_a_chunk_says(tmp_path: Path, trap: Path):
    path = chunks(tmp_path / "s", pickle.dumps([("k", Touch(trap)), ("plain", 3)], 5))
    for command in (
        ["list", path],
        ["verify", path],
        ["show", path, "op", "count"],
        ["diff", path, path, "op", "count"],
    ):
        assert cutwater(*command)[0] == 0
    assert cutwater("export", path, "op", "count", str(tmp_path / "out.parquet"))[0] == 0
    assert not trap.exists()


def test_what_needs_trust_says_so_beside_what_does_not(tmp_path: Path, trap: Path):
    path = chunks(tmp_path / "s", pickle.dumps([("k", Touch(trap)), ("plain", 3)], 5))
    assert rows(path) == [
        {"key_group": 0, "key": "k", "value": "<pickled, posix.mkdir: needs trust>"},
        {"key_group": 0, "key": "plain", "value": "3"},
    ]


def test_with_trust_everything_is_read(tmp_path: Path, trap: Path):
    path = chunks(tmp_path / "s", pickle.dumps([("k", Touch(trap))], 5))
    assert cutwater("show", path, "op", "count", "--trust")[0] == 0
    assert trap.exists()


def test_raw_rows_that_need_trust_are_refused_rather_than_texts(tmp_path: Path, trap: Path):
    part = open_snapshot(chunks(tmp_path / "s", pickle.dumps([("k", Touch(trap))], 5))).parts_of("op", "count")[0]
    with pytest.raises(ConfigurationError, match='the column "value" holds pickles') as refusal:
        [raw(batch) for batch in read(part)]
    assert 'option("trust", "true")' in refusal.value.hint


@pytest.mark.parametrize("form", ["value", "map", "pane", "timer", "list"])
def test_a_chunk_of_which_nothing_can_be_read_is_one_row(tmp_path: Path, form: str):
    (row,) = rows(chunks(tmp_path / "s", b"garbage", form=form))
    assert "<pickled, 7 bytes: needs trust>" in row["value"]


def test_a_chunk_of_another_shape_than_its_kind_is_damaged(tmp_path: Path):
    path = chunks(tmp_path / "s", pickle.dumps([1, 2], 5))
    with pytest.raises(SnapshotDamagedError, match='state "count" of operator "op" can\'t be read'):
        rows(path)
    assert cutwater("verify", path)[0] == 1


def test_the_keys_and_values_of_a_database_are_not_unpickled(tmp_path: Path, trap: Path):
    made = Database(str(tmp_path / "db"), memory_bytes=8 << 20)
    evil = pickle.dumps(Touch(trap), 5)
    keys = pickle.dumps((Touch(trap),), 5)
    prefix = key_prefix(3, state_prefix("count"), "k")
    made.fill([(prefix, packed(evil, "k")), (prefix + b"2", b"\x01" + len(keys).to_bytes(4, "big") + keys + evil)])
    made.freeze(str(tmp_path / "frozen"))
    made.close()
    files = {file.name: file.read_bytes() for file in (tmp_path / "frozen").iterdir()}
    assert [row["key"] for row in rows(database(tmp_path / "s", files))] == [
        '"k"',
        "<pickled, posix.mkdir: needs trust>",
    ]
    assert not trap.exists()


def test_a_database_that_would_unpickle_by_itself_is_refused(tmp_path: Path, trap: Path):
    made = Rdict(str(tmp_path / "db"), Options(raw_mode=False))
    made["k"] = Touch(trap)
    made.close()
    files = {file.name: file.read_bytes() for file in (tmp_path / "db").iterdir() if file.name != "LOCK"}
    with pytest.raises(SnapshotDamagedError):
        rows(database(tmp_path / "s", files))
    assert not trap.exists()


def test_an_arrow_type_that_is_a_pickle_is_not_loaded(tmp_path: Path, trap: Path):
    metadata = {
        "ARROW:extension:name": "arrow.py_extension_type",
        "ARROW:extension:metadata": pickle.dumps(Touch(trap), 0),
    }
    schema = pa.schema(
        [("key_group", pa.int32()), ("key", pa.string()), pa.field("value", pa.int64(), metadata=metadata)]
    )
    table = pa.Table.from_arrays([pa.array([0], pa.int32()), pa.array(["k"]), pa.array([1])], schema=schema)
    (tmp_path / "s").mkdir()
    pq.write_table(table, tmp_path / "s" / "t.parquet")
    data = (tmp_path / "s" / "t.parquet").read_bytes()
    state = StateTable("op", "count", "value", 1, 0, 127, "t.parquet", len(data), checksum_of(data))
    rows(publish(tmp_path / "s", TaskSnapshot("op", 0, (), inline=b"", tables=(state,))))
    assert not trap.exists()


def test_pickles_in_rows_are_written_to_a_savepoint_only_with_trust(tmp_path: Path, trap: Path):
    batch = to_batch(StateRows("count", "value", [0], ["k"], None, [{"x": 1, "y": None}]))
    assert batch.schema.names[-1] == "value_text"
    evil = batch.set_column(2, batch.schema.field(2), pa.array([pickle.dumps(Touch(trap), 5)], pa.binary()))
    new = savepoint_builder(str(tmp_path / "s")).new_state("op", "count")
    with pytest.raises(ConfigurationError, match="more than plain data"):
        new.write_part(0, [evil])
    assert not trap.exists()
    assert new.write_part(0, [batch])[0].rows == 1


OUTSIDE = [
    "/etc/passwd",
    "../evil.pth",
    "a/../../evil",
    "..",
    ".",
    "",
    "a\\b",
    "C:\\evil",
    "a\0b",
    "~/x y",
    "a//b",
    "x" * 2_000,
]


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_name_that_leads_elsewhere_is_refused_before_any_file_is_opened(tmp_path: Path, name: str):
    folder, checksum = tmp_path / "s", "0" * 32
    shared = "shared/t-0-0-c1-a1-1.sst"
    tasks = [
        TaskSnapshot("op", 0, (), file=DataFile(name, 1, checksum)),
        TaskSnapshot("op", 0, (), tables=(StateTable("op", "n", "value", 1, 0, 1, name, 1, checksum),)),
        TaskSnapshot("op", 0, (), databases=(DatabaseFiles("op", 0, 1, (), {name: b"import os"}),)),
        TaskSnapshot("op", 0, (), databases=(DatabaseFiles("op", 0, 1, (SharedFile(name, shared, 1, checksum),), {}),)),
        TaskSnapshot(
            "op", 0, (), databases=(DatabaseFiles("op", 0, 1, (SharedFile("1.sst", name, 1, checksum),), {}),)
        ),
    ]
    for task in tasks:
        with pytest.raises(SnapshotDamagedError, match="names a file that can't be part of a snapshot"):
            open_snapshot(publish(folder, task))


def test_a_database_plants_no_file(tmp_path: Path):
    path = database(tmp_path / "s", {str(tmp_path / "evil.pth"): b"import os", "CURRENT": b"x"})
    assert cutwater("show", path, "op", "count")[0] != 0
    assert cutwater("verify", path)[0] == 1
    assert not (tmp_path / "evil.pth").exists()


def test_links_and_pipes_in_a_snapshot_are_not_followed(tmp_path: Path):
    secret = tmp_path / "secret"
    secret.write_bytes(b"x")
    folder = tmp_path / "s"
    (folder / "tables").mkdir(parents=True)
    (folder / "link").symlink_to(secret)
    os.mkfifo(folder / "pipe")
    (folder / "elsewhere").symlink_to(tmp_path)
    for name in ("link", "pipe", "elsewhere/secret"):
        table = StateTable("op", "count", "value", 1, 0, 127, name, 1, checksum_of(b"x"))
        with pytest.raises(CutwaterError):
            rows(publish(folder, TaskSnapshot("op", 0, (), inline=b"", tables=(table,))))


def test_a_strangers_text_does_not_steer_the_terminal(tmp_path: Path):
    path = chunks(tmp_path / "s", pickle.dumps([("[/red]\x1b[2J", "[bold]x")], 5))
    code, output = cutwater("show", path, "op", "count")
    assert (code, "[/red]\\x1b[2J" in output, "\x1b" in output) == (0, True, False)

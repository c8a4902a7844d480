"""Can a savepoint be made of tables, looked into, changed and checked?"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from cutwater.canonical import StateRows, to_batch
from cutwater.cli.main import app
from cutwater.connectors.contract import Attachment
from cutwater.errors import ConfigurationError
from cutwater.inspection.building import savepoint_builder
from cutwater.inspection.rows import read, readable
from cutwater.inspection.snapshots import open_snapshot
from cutwater.operators.contract import OperatorSnapshot
from cutwater.protocol.ids import AttemptNumber, TaskId
from cutwater.protocol.key_groups import key_group
from cutwater.snapshots.documents import seal
from cutwater.snapshots.format import Manifest
from cutwater.snapshots.reader import attached_files
from cutwater.snapshots.storage import LocalStorage
from cutwater.snapshots.tables import SavepointFolder
from cutwater.snapshots.writer import write_task_savepoint


def build(path: Path, counts: dict[Any, Any], *, operator: str = "count", state: str = "n", **more: Any) -> str:
    """A savepoint with a value for each key."""
    builder = savepoint_builder(str(path), base=more.pop("base", None), drop=more.pop("drop", ()))
    new = builder.new_state(operator, state, **more)
    batch = pa.RecordBatch.from_pydict({"key": list(counts), "value": list(counts.values())})
    builder.publish(new, new.write_part(0, [batch]))
    return str(path)


def rows_of(path: str, operator: str = "count", state: str = "n") -> dict[Any, Any]:
    found = {}
    for part in open_snapshot(path).parts_of(operator, state):
        for batch in read(part):
            for row in readable(batch).to_pylist():
                assert row["key_group"] == key_group(row["key"], 128)
                found[row["key"]] = row["value"]
    return found


def cutwater(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["state", *arguments], env={"COLUMNS": "200"})
    return result.exit_code, result.output


def test_a_savepoint_made_of_a_table_has_its_rows(tmp_path: Path) -> None:
    path = build(tmp_path / "s", {"a": 1, "b": 2})
    assert rows_of(path) == {"a": 1, "b": 2}
    assert duckdb.sql(f"SELECT sum(value) FROM '{path}/tables/count/n/*.parquet'").fetchall() == [(3,)]


def test_a_changed_copy_leaves_the_old_one_as_it_was(tmp_path: Path) -> None:
    old = build(tmp_path / "old", {"a": 1})
    build(tmp_path / "old", {"a": "x"}, operator="other")
    new = build(tmp_path / "new", {"a": 10, "c": 3}, base=old)
    assert (rows_of(old), rows_of(new)) == ({"a": 1}, {"a": 10, "c": 3})
    assert rows_of(new, "other") == {"a": "x"}


def with_attached(path: Path) -> str:
    """A savepoint with a state, and with what a sink had prepared."""
    to = SavepointFolder(LocalStorage(str(path.parent)), path.name, AttemptNumber(1))
    copies = [Attachment("part-1", lambda: [b"prepared"])]
    task = write_task_savepoint(to, TaskId("out", 0), [("out", OperatorSnapshot(attachments=lambda: copies))])
    manifest = Manifest(1, "job", "job", 1, 1, "savepoint", "", (), (task,), {})
    to.write("manifest-a1.json", seal(manifest))
    return build(path, {"a": 1})


def attached_to(path: str) -> dict[str, bytes]:
    opened = open_snapshot(path)
    found = attached_files(opened.storage, opened.folder, opened.manifest.tasks, "out")
    return {name: b"".join(pieces()) for name, pieces in found.items()}


def test_a_changed_copy_holds_what_sinks_had_prepared(tmp_path: Path) -> None:
    new = build(tmp_path / "new", {"a": 2}, base=with_attached(tmp_path / "old"))
    shutil.rmtree(tmp_path / "old")
    assert (attached_to(new), cutwater("verify", new)[0]) == ({"part-1": b"prepared"}, 0)


def test_a_changed_copy_without_a_sink_has_nothing_of_it(tmp_path: Path) -> None:
    new = build(tmp_path / "new", {"a": 2}, base=with_attached(tmp_path / "old"), drop=["out"])
    assert (attached_to(new), list((tmp_path / "new").rglob("*.bin"))) == ({}, [])


def test_the_command_names_a_damaged_copy_of_prepared_output(tmp_path: Path) -> None:
    path = with_attached(tmp_path / "s")
    (file,) = Path(path).rglob("*.bin")
    file.write_bytes(b"PREPARED")
    code, text = cutwater("verify", path)
    assert (code, file.name in text.replace("\n", "")) == (1, True)


def test_an_operator_can_be_renamed_by_writing_it_anew(tmp_path: Path) -> None:
    old = build(tmp_path / "old", {"a": 1})
    new = build(tmp_path / "new", rows_of(old), operator="counts", base=old, drop=["count"])
    assert [(one.operator, one.name) for one in open_snapshot(new).states()] == [("counts", "n")]


def test_the_number_of_key_groups_can_change(tmp_path: Path) -> None:
    path = build(tmp_path / "s", {"a": 1}, max_parallelism=7)
    (vertex,) = open_snapshot(path).manifest.vertices
    batch = next(read(open_snapshot(path).parts_of("count", "n")[0]))
    assert (vertex.max_parallelism, batch.column("key_group").to_pylist()) == (7, [key_group("a", 7)])


def test_keys_and_values_of_any_type_survive_the_raw_form(tmp_path: Path) -> None:
    rows = StateRows("n", "value", [0, 0], [("x", 1), ("y", 2)], None, [{"a": 1}, {"b": {2}}])
    builder = savepoint_builder(str(tmp_path / "s"))
    new = builder.new_state("count", "n")
    # As Spark hands it back: without our metadata.
    plain = to_batch(rows).replace_schema_metadata(None)
    without = pa.RecordBatch.from_arrays(plain.columns, plain.schema.names)
    builder.publish(new, new.write_part(0, [without]))
    (batch,) = read(open_snapshot(str(tmp_path / "s")).parts_of("count", "n")[0])
    assert readable(batch).column("key").to_pylist() == [{"_1": "x", "_2": 1}, {"_1": "y", "_2": 2}]
    assert batch.column("value_text").to_pylist() == ['{"a":1}', '{"b":[2]}']


def test_a_state_that_is_not_there_is_answered_with_those_that_are(tmp_path: Path) -> None:
    path = build(tmp_path / "s", {"a": 1})
    with pytest.raises(ConfigurationError, match="it has count/n"):
        open_snapshot(path).parts_of("count", "m")


def test_the_command_lists_snapshots_and_their_states(tmp_path: Path) -> None:
    path = build(tmp_path / "all" / "s", {"a": 1})
    code, text = cutwater("list", str(tmp_path / "all"))
    assert code == 0
    assert "s " in text
    assert "savepoint" in text
    code, text = cutwater("list", path)
    assert (code, "count" in text, "value" in text) == (0, True, True)


def test_the_command_shows_compares_and_exports(tmp_path: Path) -> None:
    old, new = build(tmp_path / "old", {"a": 1, "b": 2}), build(tmp_path / "new", {"a": 1, "b": 5, "c": 3})
    assert "a" in cutwater("show", old, "count", "n")[1]
    code, text = cutwater("diff", old, new, "count", "n")
    assert (code, "+ c  3" in text, "~ b  2 → 5" in text) == (0, True, True)
    assert "1 added, 0 removed, 1 changed of 2" in text
    code, _ = cutwater("export", new, "count", "n", str(tmp_path / "x.parquet"))
    assert code == 0
    assert sorted(pq.read_table(tmp_path / "x.parquet").column("value").to_pylist()) == [1, 3, 5]
    assert cutwater("export", new, "count", "n", str(tmp_path / "x.parquet"))[0] == 2


@pytest.mark.parametrize("damage", ["flip", "cut", "remove"])
def test_the_command_names_a_damaged_file(tmp_path: Path, damage: str) -> None:
    path = build(tmp_path / "s", {f"key-{number}": number for number in range(1000)})
    assert cutwater("verify", path)[0] == 0
    (file,) = Path(path).rglob("*.parquet")
    data = bytearray(file.read_bytes())
    if damage == "remove":
        file.unlink()
    else:
        data[len(data) // 2] ^= 1
        file.write_bytes(bytes(data) if damage == "flip" else bytes(data[:-1]))
    code, text = cutwater("verify", path)
    assert (code, file.name in text.replace("\n", "")) == (1, True)


def test_the_command_finds_files_that_no_snapshot_names(tmp_path: Path) -> None:
    job = tmp_path / "job"
    (job / "journal").mkdir(parents=True)
    (job / "journal" / "0000000000.json").write_text("{}")
    (job / "chk-3").mkdir()
    (job / "chk-3" / "count-0-a1.state").write_bytes(b"left over")
    (job / "shared").mkdir()
    (job / "shared" / "count-0-0-c3-a1-000012.sst").write_bytes(b"left over")
    (tmp_path / "something of a user.txt").write_text("stays")
    code, text = cutwater("gc", str(tmp_path), "--dry-run")
    assert (code, "2 files" in text, "would be deleted" in text) == (0, True, True)
    assert (job / "chk-3" / "count-0-a1.state").exists()
    cutwater("gc", str(tmp_path))
    left = sorted(path.name for path in tmp_path.rglob("*") if path.is_file())
    assert left == ["0000000000.json", "something of a user.txt"]


def test_what_is_shown_of_snapshots_is_there_as_json(tmp_path: Path) -> None:
    old, new = build(tmp_path / "old", {"a": 1, "b": 2}), build(tmp_path / "new", {"a": 10, "c": 3})

    def told(*arguments: str) -> Any:
        code, output = cutwater(*arguments, "--json")
        assert code == 0, output
        return json.loads(output)

    assert [(each["operator"], each["state"]) for each in told("list", old)] == [("count", "n")]
    assert sorted(each["snapshot"] for each in told("list", str(tmp_path))) == ["new", "old"]
    assert sorted(row["key"] for row in told("show", old, "count", "n")) == ["a", "b"]
    assert len(told("show", old, "count", "n", "--rows", "1")) == 1
    assert told("verify", old) == [{"snapshot": old, "whole": True, "problem": None}]
    assert told("diff", old, new, "count", "n") == {
        "added": [{"key": "c", "before": None, "after": 3}],
        "removed": [{"key": "b", "before": 2, "after": None}],
        "changed": [{"key": "a", "before": 1, "after": 10}],
    }

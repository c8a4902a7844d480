"""A file of a snapshot is changed, cut or gone: it is named, an older snapshot takes over, and nobody reads garbage."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cutwater.api.jobs import JobHandle
from cutwater.errors import CutwaterError
from cutwater.inspection.storages import snapshots_below

from .ledger_job import LedgerJob, wait_for

RECORDS = 6_000


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x10
    path.write_bytes(data)


def cut(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def remove(path: Path) -> None:
    path.unlink()


DAMAGES: list[Callable[[Path], None]] = [flip, cut, remove]


@pytest.fixture(scope="module", params=["filesystem", "rocksdb"])
def abandoned(request: Any, spark: Any, tmp_path_factory: Any) -> Iterator[tuple[Path, str]]:
    """What a cancelled job has left on the storage, and its backend. With a savepoint beside it."""
    root = tmp_path_factory.mktemp(f"abandoned-{request.param}")
    # Slow: it must not end before it is cancelled, however busy the machine is.
    slow = LedgerJob(root, records=RECORDS, per_second=500)
    job = submit(slow, spark, request.param, checkpoints={"every": "100ms"})
    wait_for(job, lambda status: status.checkpoints_completed >= 5)
    job.savepoint(str(root / "savepoints"), timeout="1min")
    job.cancel()
    job.wait("1min")
    return root, request.param


def submit(ledger: LedgerJob, spark: Any, backend: str, **options: Any) -> JobHandle:
    """With everything in files, however small."""
    return ledger.submit(spark, state_backend=backend, inline_state_bytes_max=0, **options)


def newest_checkpoint(root: Path) -> Path:
    folder = snapshots_below(str(root / "checkpoints"))[-1].folder
    return root / "checkpoints" / folder


def only_in_the_newest(root: Path) -> list[Path]:
    """One file of each kind that no older snapshot names: manifest, state, and those of databases."""
    newest = newest_checkpoint(root)
    checkpoint = newest.name.removeprefix("chk-")
    files = [*newest.iterdir(), *(newest.parent / "shared").glob(f"*-c{checkpoint}-a*")]
    return list({_kind(file): file for file in sorted(files)}.values())


def _kind(file: Path) -> str:
    """ "…-c5-a1-MANIFEST-000042" → "MANIFEST"."""
    return file.suffix or file.name.rpartition("-a1-")[2].partition("-")[0]


@pytest.mark.parametrize("damage", DAMAGES)
def test_an_older_checkpoint_takes_over(
    damage: Callable[[Path], None], spark: Any, abandoned: tuple[Path, str], tmp_path: Path
) -> None:
    original, backend = abandoned
    for number, file in enumerate(only_in_the_newest(original)):
        root = tmp_path / str(number)
        shutil.copytree(original, root)
        damage(root / file.relative_to(original))
        ledger = LedgerJob(root, records=RECORDS)
        status = submit(ledger, spark, backend, restore="latest").wait("2min").status
        assert any(file.name in warning for warning in status.warnings), (file, status.warnings)
        assert_nothing_is_lost(ledger)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_savepoint_is_refused_by_the_name_of_its_file(
    damage: Callable[[Path], None], spark: Any, abandoned: tuple[Path, str], tmp_path: Path
) -> None:
    original, backend = abandoned
    savepoint = next((original / "savepoints").iterdir())
    kinds = [next(savepoint.glob("manifest-*.json")), next(savepoint.rglob("*.parquet"))]
    for number, file in enumerate(kinds):
        root = tmp_path / str(number)
        shutil.copytree(original, root)
        damage(root / file.relative_to(original))
        ledger = LedgerJob(root, records=RECORDS)
        path = str(root / savepoint.relative_to(original))
        with pytest.raises(CutwaterError) as refused:
            submit(ledger, spark, backend, restore=path).wait("2min")
        named = savepoint.name if damage is remove and file.suffix == ".json" else file.name
        assert named in str(refused.value)


def test_a_file_that_all_snapshots_share_is_named_before_anything_is_read(
    spark: Any, abandoned: tuple[Path, str], tmp_path: Path
) -> None:
    original, backend = abandoned
    root = tmp_path / "copy"
    shutil.copytree(original, root)
    for file in (root / "checkpoints").rglob("*.sst" if backend == "rocksdb" else "*.state"):
        flip(file)
    with pytest.raises(CutwaterError, match=r"\.sst" if backend == "rocksdb" else r"\.state"):
        submit(LedgerJob(root, records=RECORDS), spark, backend, restore="latest").wait("2min")
    # What the newest checkpoint had prepared may have become visible; nothing came twice.
    for rows in LedgerJob(root, records=RECORDS).rows_per_key().values():
        assert [row["count"] for row in rows] == list(range(1, len(rows) + 1))


def assert_nothing_is_lost(ledger: LedgerJob) -> None:
    """What was committed after the older snapshot comes again; what any row says is right all the same."""
    rows = [row for found in ledger.rows_per_key().values() for row in found]
    assert len({(row["key"], row["number"]) for row in rows}) == RECORDS
    assert all(row["count"] == row["number"] + 1 for row in rows)

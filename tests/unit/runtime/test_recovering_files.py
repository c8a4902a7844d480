"""Are the records that a snapshot holds as prepared files published once, whatever became of files, folder and run?"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import cutwater as cw
from cutwater.batches import ObjectBatch
from cutwater.connectors.contract import CallersThread
from cutwater.errors import AttemptFencedError, ConfigurationError, RecoveryRefusedError
from cutwater.operators.contract import OperatorSnapshot
from cutwater.operators.sink import WriterOperator
from cutwater.protocol.ids import AttemptNumber, CheckpointId, TaskId
from cutwater.protocol.modes import CheckpointMode
from cutwater.runtime.recovering import Recovered, check_connectors, history_of, recover
from cutwater.snapshots.format import FORMAT_VERSION, Manifest, TaskSnapshot
from cutwater.snapshots.storage import LocalStorage
from cutwater.snapshots.store import SnapshotStore
from cutwater.snapshots.tables import SavepointFolder
from cutwater.snapshots.writer import Destination, write_task_savepoint, write_task_snapshot

TASK = TaskId("source", 0)


class _Planned(Exception):
    def __init__(self, plan: Any) -> None:
        self.plan = plan


class _OnlyPlans:
    def launch(self, job: Any, options: Any) -> Any:
        raise _Planned(job)


def plan_into(folder: Path, *, job_id: str = "job", if_exists: Any = "append") -> Any:
    env = cw.Environment(launcher=_OnlyPlans(), checkpoints=cw.Checkpoints(every="1s"))
    env.from_collection(["x"], uid="source").sink_to(cw.sinks.text(folder, if_exists=if_exists), uid="out")
    with pytest.raises(_Planned) as planned:
        env.submit(job_id=job_id)
    return planned.value.plan


@dataclass
class Driver:
    """One driver of a job, with the writer of its only task."""

    root: Path
    output: Path
    restore: str | None = None
    storage: str = "checkpoints"
    job_id: str = "job"

    def __post_init__(self) -> None:
        self.store = SnapshotStore(LocalStorage(str(self.root / self.storage)), self.job_id)
        self.plan = plan_into(self.output, job_id=self.job_id)
        self._history = history_of(self.restore, self.store)
        self.begin()

    def begin(self) -> None:
        """An attempt: also after a failure."""
        self.recovered: Recovered = recover(self.plan, self.store, self._history)
        (sink,) = [node for vertex in self.plan.graph.vertices for node in vertex.operators if node.uid == "out"]
        self.writer = WriterOperator(sink.connector, CheckpointMode.EXACTLY_ONCE)
        self.writer.open(
            SimpleNamespace(  # type: ignore[arg-type]
                job_id=self.job_id,
                uid="out",
                name="out",
                subtask=0,
                parallelism=1,
                attempt=self.recovered.attempt,
                run=self.recovered.run,
                report=None,
                now_seconds=lambda: 0.0,
                wall_ms=lambda: 0,
                run_in_background=lambda work, done: done(work(), None),
                open_elsewhere=lambda work, done: done(work(), None),
                wake=lambda: None,
                own_thread=CallersThread,
            )
        )

    def write(self, *values: str) -> None:
        self.writer.process(ObjectBatch(list(values)), 0)

    def checkpoint(self, number: int, *, committed: bool = True) -> str:
        to = Destination(self.store.storage, self.job_id, self.recovered.attempt, inline_bytes_max=1 << 20)
        checkpoint = CheckpointId(number)
        task = write_task_snapshot(to, checkpoint, TASK, self._frozen(number))
        self.store.publish(self._manifest(number, task))
        if committed:
            self.writer.on_checkpoint_completed(checkpoint)
        return str(self.root / self.storage / self.job_id / f"chk-{number}")

    def savepoint(self, number: int) -> str:
        to = SavepointFolder(LocalStorage(str(self.root / "savepoints")), f"s-{number}", self.recovered.attempt)
        task = write_task_savepoint(to, TASK, self._frozen(number))
        url = str(self.root / "savepoints" / f"s-{number}")
        self.store.publish_savepoint(url, self._manifest(number, task))
        return url

    def _frozen(self, number: int) -> Sequence[tuple[str, OperatorSnapshot]]:
        return [("out", self.writer.freeze(CheckpointId(number)))]

    def _manifest(self, number: int, task: TaskSnapshot) -> Manifest:
        attempt = AttemptNumber(self.recovered.attempt)
        return Manifest(FORMAT_VERSION, self.job_id, "job", number, attempt, "checkpoint", "", (), (task,), {})


def lines(folder: Path) -> list[str]:
    return sorted(line for path in folder.glob("part-*") for line in path.read_text().splitlines())


def test_a_checkpoint_is_restored_into_a_new_folder(tmp_path: Path) -> None:
    job = Driver(tmp_path, tmp_path / "out")
    job.write("a")
    path = job.checkpoint(1)
    Driver(tmp_path, tmp_path / "new", restore=path, job_id="copy")
    assert (lines(tmp_path / "new"), lines(tmp_path / "out")) == (["a"], ["a"])


@pytest.mark.parametrize("folder", ["out", "new"])
def test_a_savepoint_is_restored_after_a_failover_of_its_job(tmp_path: Path, folder: str) -> None:
    job = Driver(tmp_path, tmp_path / "out")
    job.write("a")
    path = job.savepoint(1)
    job.begin()
    assert lines(tmp_path / "out") == []
    Driver(tmp_path, tmp_path / folder, restore=path)
    assert lines(tmp_path / folder) == ["a"]


def test_a_savepoint_needs_nothing_of_the_folder_that_it_was_taken_in(tmp_path: Path) -> None:
    job = Driver(tmp_path, tmp_path / "out")
    job.write("a")
    path = job.savepoint(1)
    shutil.rmtree(tmp_path / "out")
    for folder in ("new", "newer", "new"):
        Driver(tmp_path, tmp_path / folder, restore=path)
    assert (lines(tmp_path / "new"), lines(tmp_path / "newer")) == (["a"], ["a"])


def test_a_savepoint_whose_copy_of_the_output_is_damaged_is_refused_at_once(tmp_path: Path) -> None:
    job = Driver(tmp_path, tmp_path / "out")
    job.write("a")
    path = job.savepoint(1)
    (copy,) = (tmp_path / "savepoints" / "s-1" / "attached").iterdir()
    copy.write_bytes(b"?" * copy.stat().st_size)
    with pytest.raises(RecoveryRefusedError, match=copy.name):
        Driver(tmp_path, tmp_path / "new", restore=path)
    assert lines(tmp_path / "new") == []


def test_a_savepoint_takes_nothing_from_the_job_that_goes_on(tmp_path: Path) -> None:
    job = Driver(tmp_path, tmp_path / "out")
    job.write("a")
    path = job.savepoint(1)
    Driver(tmp_path, tmp_path / "new", restore=path, job_id="copy")
    job.write("b")
    job.checkpoint(2)
    assert (lines(tmp_path / "out"), lines(tmp_path / "new")) == (["a", "b"], ["a"])


def test_a_savepoint_restored_after_its_job_committed_adds_nothing_to_the_folder(tmp_path: Path) -> None:
    job = Driver(tmp_path, tmp_path / "out")
    job.write("a")
    path = job.savepoint(1)
    job.checkpoint(2)
    Driver(tmp_path, tmp_path / "out", restore=path)
    assert lines(tmp_path / "out") == ["a"]


def test_a_job_whose_checkpoints_were_deleted_adds_to_its_output(tmp_path: Path) -> None:
    for value in ("a", "b", "c"):
        job = Driver(tmp_path, tmp_path / "out", restore="latest" if value == "c" else None)
        job.write(value)
        job.checkpoint(int(value, 16))
        if value == "a":
            shutil.rmtree(tmp_path / "checkpoints")
    assert lines(tmp_path / "out") == ["a", "b", "c"]


def test_jobs_of_one_id_on_two_storages_leave_each_others_files_alone(tmp_path: Path) -> None:
    first = Driver(tmp_path, tmp_path / "out", storage="one")
    first.write("a")
    Driver(tmp_path, tmp_path / "out", storage="two")
    second = Driver(tmp_path, tmp_path / "out", storage="two")
    second.write("b")
    for job in (first, second):
        job.checkpoint(1)
    assert lines(tmp_path / "out") == ["a", "b"]


def test_what_a_fresh_run_replaces_can_still_be_restored_by_its_path(tmp_path: Path) -> None:
    job = Driver(tmp_path, tmp_path / "out")
    job.write("a")
    path = job.checkpoint(1, committed=False)
    Driver(tmp_path, tmp_path / "out")
    Driver(tmp_path, tmp_path / "out", restore=path)
    assert lines(tmp_path / "out") == ["a"]


def test_restoring_the_latest_goes_on_with_the_run_and_deletes_what_it_left_pending(tmp_path: Path) -> None:
    job = Driver(tmp_path, tmp_path / "out")
    job.write("a")
    job.checkpoint(1, committed=False)
    job.write("rolled back")
    after = Driver(tmp_path, tmp_path / "out", restore="latest")
    assert after.recovered.run == job.recovered.run
    assert (lines(tmp_path / "out"), list((tmp_path / "out" / ".pending").iterdir())) == (["a"], [])


def test_of_two_fresh_runs_of_one_id_the_second_counts_and_the_first_is_told(tmp_path: Path) -> None:
    first = Driver(tmp_path, tmp_path / "out")
    second = Driver(tmp_path, tmp_path / "out")
    second.write("b")
    with pytest.raises(AttemptFencedError):
        first.checkpoint(1)
    with pytest.raises(AttemptFencedError, match="started again"):
        first.begin()
    second.checkpoint(1)
    assert lines(tmp_path / "out") == ["b"]


@pytest.mark.parametrize("restore", [None, "latest"])
@pytest.mark.parametrize("loses_its_checkpoints", [True, False])
def test_a_job_that_starts_from_nothing_is_kept_from_doubling_the_output(
    tmp_path: Path, restore: str | None, loses_its_checkpoints: bool
) -> None:
    job = Driver(tmp_path, tmp_path / "out")
    job.write("a")
    job.checkpoint(1)
    if loses_its_checkpoints:
        shutil.rmtree(tmp_path / "checkpoints")
    store = SnapshotStore(LocalStorage(str(tmp_path / "checkpoints")), "job")
    plan, history = plan_into(tmp_path / "out", if_exists="refuse"), history_of(restore, store)
    if restore == "latest" and not loses_its_checkpoints:
        check_connectors(plan, history, store)
    else:
        with pytest.raises(ConfigurationError, match="another run"):
            check_connectors(plan, history, store)


def test_a_restore_by_path_is_not_hindered_by_output(tmp_path: Path) -> None:
    job = Driver(tmp_path, tmp_path / "out")
    job.write("a")
    path = job.checkpoint(1)
    check_connectors(plan_into(tmp_path / "out", if_exists="refuse"), history_of(path, job.store), job.store)

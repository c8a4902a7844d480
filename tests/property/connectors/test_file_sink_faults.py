"""Would the machine of `test_file_sink_machine` notice? Each fault breaks the sink in one place, and must be found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from tests.property.connectors.memory_files import MemoryFiles
from tests.property.connectors.test_file_sink_machine import Sinks

from cutwater.connectors import file_sink
from cutwater.connectors.contract import Attachment
from cutwater.connectors.file_sink import FileSink
from cutwater.connectors.prepared_files import Owner, PreparedFile


def names_repeat_when_attempts_begin_again() -> Any:
    return patch.object(file_sink, "Owner", lambda job_id, uid, run: Owner(job_id, uid, "0"))


def recovery_deletes_the_pending_files_of_other_runs() -> Any:
    original = Owner.is_left_over

    def is_left_over(self: Owner, pending: str, *, before: Any) -> bool:
        run = pending.split("-r")[1].partition("-")[0]
        return original(Owner(self.job_id, self.uid, run), pending, before=before)

    return patch.object(Owner, "is_left_over", is_left_over)


def savepoints_hold_names_only() -> Any:
    return patch.object(FileSink, "attachments", lambda self, committables: list[Attachment]())


def the_folder_of_a_prepared_file_is_forgotten() -> Any:
    original = FileSink._publish_all

    def publish_all(self: FileSink, prepared: Iterable[PreparedFile], attached: Mapping[str, Any], **rest: Any) -> None:
        forgotten = [PreparedFile(file.pending, file.final, file.size_bytes) for file in prepared]
        original(self, forgotten, {}, **rest)

    return patch.object(FileSink, "_publish_all", publish_all)


def names_of_prepared_files_are_not_durable() -> Any:
    original = MemoryFiles.sync_folder

    def sync_folder(self: MemoryFiles, folder: str) -> None:
        if not folder.endswith(".pending"):
            original(self, folder)

    return patch.object(MemoryFiles, "sync_folder", sync_folder)


def published_names_are_not_durable() -> Any:
    original = MemoryFiles.sync_folder

    def sync_folder(self: MemoryFiles, folder: str) -> None:
        if folder.endswith(".pending"):
            original(self, folder)

    return patch.object(MemoryFiles, "sync_folder", sync_folder)


FAULTS = [
    names_repeat_when_attempts_begin_again,
    recovery_deletes_the_pending_files_of_other_runs,
    savepoints_hold_names_only,
    the_folder_of_a_prepared_file_is_forgotten,
    names_of_prepared_files_are_not_durable,
    published_names_are_not_durable,
]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_the_sink_is_found(fault: Any) -> None:
    quick = settings(
        max_examples=300,
        stateful_step_count=30,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    found: list[BaseException] = []
    with fault():
        try:
            run_state_machine_as_test(Sinks, settings=quick)
        except Exception as error:
            found.append(error)
    assert found

"""Would the machine of `test_file_sink_machine` notice? Each fault breaks the sink in one place, and must be found."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from tests.property.connectors.memory_files import MemoryFiles
from tests.property.connectors.test_file_sink_machine import RolledSinks, Sinks

from cutwater.connectors import file_sink, prepared_files
from cutwater.connectors.contract import Attachment
from cutwater.connectors.file_publishing import Publisher
from cutwater.connectors.file_sink import FileSink
from cutwater.connectors.prepared_files import Owner, PreparedFile, RolledFile, decode_prepared
from cutwater.connectors.rolling import Rolling


def names_repeat_when_attempts_begin_again() -> Any:
    return patch.object(FileSink, "owner", lambda self, job_id, uid, run: Owner(job_id, uid, "0"))


def recovery_deletes_the_pending_files_of_other_runs() -> Any:
    original = Owner.is_left_over

    def is_left_over(self: Owner, pending: str, *, before: Any) -> bool:
        run = pending.split("-r")[1].partition("-")[0]
        return original(Owner(self.job_id, self.uid, run), pending, before=before)

    return patch.object(Owner, "is_left_over", is_left_over)


def savepoints_hold_names_only() -> Any:
    return patch.object(FileSink, "attachments", lambda self, committables: list[Attachment]())


def the_folder_of_a_prepared_file_is_forgotten() -> Any:
    original = Publisher.publish_all

    def publish_all(
        self: Publisher, prepared: Iterable[PreparedFile], attached: Mapping[str, Any], **rest: Any
    ) -> None:
        forgotten = [PreparedFile(file.pending, file.final, file.size_bytes) for file in prepared]
        original(self, forgotten, {}, **rest)

    return patch.object(Publisher, "publish_all", publish_all)


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


def held_files_are_published_by_themselves() -> Any:
    return patch.object(file_sink, "_is_held", lambda file: False)


def held_files_are_in_no_snapshot() -> Any:
    return patch.object(Rolling, "held", lambda self: [])


def recovery_publishes_pieces_of_what_is_there() -> Any:
    return patch.object(Publisher, "is_rolled", lambda self, file: False)


def recovery_publishes_what_is_held_and_what_it_became() -> Any:
    return patch.object(file_sink, "_latest", list)


def pieces_are_deleted_before_they_are_joined() -> Any:
    original = FileSink.commit

    def commit(self: FileSink, committables: Sequence[bytes]) -> None:
        for file in map(decode_prepared, committables):
            for piece in file.pieces if isinstance(file, RolledFile) else ():
                self.files.delete(f"{piece.folder}/.pending/{piece.pending}")
        original(self, committables)

    return patch.object(FileSink, "commit", commit)


def numbers_of_pieces_are_forgotten() -> Any:
    return patch.object(prepared_files, "_RANGE", re.compile("(x)(y)"))


FAULTS = [
    (Sinks, names_repeat_when_attempts_begin_again),
    (Sinks, recovery_deletes_the_pending_files_of_other_runs),
    (Sinks, savepoints_hold_names_only),
    (Sinks, the_folder_of_a_prepared_file_is_forgotten),
    (Sinks, names_of_prepared_files_are_not_durable),
    (Sinks, published_names_are_not_durable),
    (RolledSinks, held_files_are_published_by_themselves),
    (RolledSinks, held_files_are_in_no_snapshot),
    (RolledSinks, recovery_publishes_pieces_of_what_is_there),
    (RolledSinks, pieces_are_deleted_before_they_are_joined),
    (RolledSinks, numbers_of_pieces_are_forgotten),
    (RolledSinks, published_names_are_not_durable),
]


@pytest.mark.parametrize(("machine", "fault"), FAULTS)
def test_a_fault_in_the_sink_is_found(machine: Any, fault: Any) -> None:
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
            run_state_machine_as_test(machine, settings=quick)
        except Exception as error:
            found.append(error)
    assert found

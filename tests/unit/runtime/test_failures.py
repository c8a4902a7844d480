"""Does an error survive its way to the driver, without a pickle?"""

from __future__ import annotations

import msgspec
import pytest

from cutwater import errors
from cutwater.protocol.ids import AttemptNumber, TaskId
from cutwater.runtime.failures import FailureReport, report_of
from cutwater.runtime.messages import ConnectorReport, TaskFailed, decode_from_slot, encode

TASK = TaskId("count", 0)
KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.CutwaterError)]


@pytest.mark.parametrize("kind", KINDS)
def test_every_error_of_ours_arrives_as_what_it_was(kind: type[errors.CutwaterError]) -> None:
    failed = TaskFailed(AttemptNumber(1), TASK, report_of(kind("fact", detail="detail", hint="hint"), TASK))
    arrived = decode_from_slot(encode(failed)).error.to_error()
    assert (type(arrived), str(arrived)) == (kind, str(kind("fact", detail="detail", hint="hint")))


def test_a_users_own_kind_of_our_error_arrives_as_the_nearest_of_ours() -> None:
    class Mine(errors.StorageError):
        pass

    assert type(report_of(Mine("full"), TASK).to_error()) is errors.StorageError


def test_any_other_exception_is_told_in_words() -> None:
    error = report_of(ValueError("no"), TASK).to_error()
    assert (error.fact, error.detail) == (f"task {TASK} failed", "ValueError: no")


@pytest.mark.parametrize("kind", ["os", "annotations", "_rebuild", "__loader__", "NoSuchError", ""])
def test_a_stranger_can_name_no_class_but_our_errors(kind: str) -> None:
    assert type(FailureReport(kind, "fact").to_error()) is errors.InternalError


def test_a_report_of_anything_but_data_is_refused_where_it_is_sent() -> None:
    with pytest.raises(TypeError):
        encode(ConnectorReport(AttemptNumber(1), "out", object()))


def test_a_report_arrives_as_data() -> None:
    value = [1, "two", b"three", None, {"four": 4.0}]
    report = ConnectorReport(AttemptNumber(1), "out", value)
    assert decode_from_slot(encode(report)) == report


def test_a_frame_that_is_no_message_is_refused() -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_from_slot(b"\x81")

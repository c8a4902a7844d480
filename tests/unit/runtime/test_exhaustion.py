"""Does a process without file descriptors say so, whatever fails first?"""

from __future__ import annotations

from errno import EMFILE, ENOSPC

import pytest

from cutwater.errors import InternalError, OperationsError, StorageError, UserFunctionError
from cutwater.runtime.exhaustion import explained


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    "error",
    [
        OSError(EMFILE, "Too many open files", "/state/000017.sst"),
        RuntimeError("IO error: While open a file: 000017.sst: Too many open files"),
        caused(StorageError("a file can't be written"), OSError(EMFILE, "Too many open files")),
        InternalError("task p[1] failed", detail="Exception: IO error: Too many open files"),
    ],
)
def test_what_fails_for_want_of_file_descriptors_says_so(error: Exception) -> None:
    told = explained(error)
    assert isinstance(told, OperationsError)
    assert told.fact.startswith("a slot has no file descriptors left")
    assert "ulimit -n" in told.hint


@pytest.mark.parametrize(
    "error",
    [
        OSError(ENOSPC, "No space left on device"),
        StorageError("a file can't be written"),
        UserFunctionError("the function failed", detail="OSError: Too many open files"),
    ],
)
def test_other_failures_stay_as_they_are(error: Exception) -> None:
    assert explained(error) is error

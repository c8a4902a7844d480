"""What is the first thing that runs inside a slot's Spark task?

This module travels by value, because Cutwater may not be importable there yet: it uses the standard library only,
and what every PySpark worker has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

OUTCOME_SCHEMA = "outcome string"


def slot_task(archive: bytes, digest: str, order: bytes) -> Callable[[Iterator[Any]], Iterator[str]]:
    """The function for `mapPartitions`: unpacks the code, runs the slot to its end, and returns one line about it."""

    def run(records: Iterator[Any]) -> Iterator[str]:
        for _ in records:
            pass
        yield _run_slot(archive, digest, order)

    return run


def in_arrow(task: Callable[[Iterator[Any]], Iterator[str]]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """The same for `mapInArrow`."""

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow

        for outcome in task(batches):
            yield pyarrow.RecordBatch.from_pydict({"outcome": [outcome]})

    return run


def _run_slot(archive: bytes, digest: str, order: bytes) -> str:
    try:
        _make_importable(archive, digest)
        from cutwater.deploy.slot_process import run_slot
    except ImportError as error:
        import socket
        import sys

        return (
            f"failed: the module {error.name!r} can't be imported on {socket.gethostname()} by {sys.executable} "
            f"({error}); install it for the Python of the executors"
        )
    return run_slot(order)


def _make_importable(archive: bytes, digest: str) -> None:
    """Puts the shipped code first on the path. The worker may have run another job before: that one's code goes."""
    import os
    import sys
    import tempfile

    folder = os.path.join(_shared_folder(), f"cutwater-code-{digest}")
    if not os.path.lexists(folder):
        _unpack(archive, folder)
    if not _is_own(folder):
        folder = os.path.join(tempfile.mkdtemp(prefix="cutwater-"), f"cutwater-code-{digest}")
        _unpack(archive, folder)
    stale = [entry for entry in sys.path if os.path.basename(entry).startswith("cutwater-code-") and entry != folder]
    for entry in stale:
        sys.path.remove(entry)
        for name, module in list(sys.modules.items()):
            if (getattr(module, "__file__", None) or "").startswith(entry + os.sep):
                del sys.modules[name]
    if folder not in sys.path:
        sys.path.insert(0, folder)  # no import cache knows it yet; invalidating all of them takes 0.2 s


def _is_own(folder: str) -> bool:
    """Code that another user could have put there, or can change, is not run."""
    import os
    import stat

    found = os.lstat(folder)
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022


def _shared_folder() -> str:
    """A folder of this executor, which Spark deletes at its end."""
    import tempfile

    from pyspark import SparkFiles

    return SparkFiles.getRootDirectory() or tempfile.mkdtemp(prefix="cutwater-")


def _unpack(archive: bytes, folder: str) -> None:
    """Other slots may do the same at the same time: whoever is first wins."""
    import io
    import os
    import shutil
    import tempfile
    import zipfile

    unfinished = tempfile.mkdtemp(dir=os.path.dirname(folder), prefix="cutwater-unpacking-")
    with zipfile.ZipFile(io.BytesIO(archive)) as file:
        file.extractall(unfinished)
    try:
        os.rename(unfinished, folder)
    except OSError:
        shutil.rmtree(unfinished, ignore_errors=True)

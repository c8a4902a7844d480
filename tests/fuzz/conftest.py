"""What may a reader of bytes from strangers do, and how long do we look for what it may not?

Each test feeds one reader: manifests, the journal, tables of savepoints, options files. Readers of the wire belong here
too. A reader raises one of our errors or none; it calls nothing, waits for nothing, and touches no file but its own.

FUZZ_EXAMPLES says how many examples each test tries (`make fuzz` sets more); left out, all of them take a minute.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from cutwater.errors import OperationsError, UserError

settings.register_profile(
    "fuzz",
    max_examples=int(os.environ.get("FUZZ_EXAMPLES", "800")),
    deadline=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
#: An `InternalError` is a bug of ours.
EXPECTED = (UserError, OperationsError)
FUZZ = settings.get_profile("fuzz")

_watched: list[tuple[str, Any]] = []
_watching = False
_HARMLESS = ("/dev/null", "/proc/", "/sys/")


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if _watching and (event == "pickle.find_class" or event.startswith(("os.system", "subprocess.", "socket.connect"))):
        _watched.append((event, arguments))
    elif _watching and event == "open" and isinstance(arguments[0], str):
        flags = arguments[2] if isinstance(arguments[2], int) else 0
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            _watched.append((event, arguments))


sys.addaudithook(_hook)


@pytest.fixture
def watch(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of the test's own. Fails if anything was unpickled, run, or written elsewhere."""
    global _watching
    root = tmp_path_factory.mktemp("fuzz")
    monkeypatch.setattr("tempfile.tempdir", str(root))
    monkeypatch.setattr(pickle, "loads", _refuse_to_unpickle)
    _watched.clear()
    _watching = True
    yield root
    _watching = False
    assert [(event, arguments) for event, arguments in _watched if not _is_allowed(event, arguments, root)] == []


def _is_allowed(event: str, arguments: tuple[Any, ...], root: Path) -> bool:
    path = str(arguments[0])
    return event == "open" and (
        path.startswith((str(root), *_HARMLESS)) or ".hypothesis" in path or "__pycache__" in path
    )


def _refuse_to_unpickle(*_: Any, **__: Any) -> Any:
    raise AssertionError("something was unpickled")

"""Snapshots in an object store: obstore's own, in memory."""

from __future__ import annotations

from typing import Any

import pytest

from cutwater.snapshots import object_storage
from cutwater.snapshots.object_storage import ObjectStorage

stores = pytest.importorskip("obstore.store")


class StopsOnce:
    """Deletes as Azure's does: it stops at a file that is gone, and what comes behind stays."""

    def __init__(self, obstore: Any) -> None:
        self._obstore = obstore
        self._has_stopped = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._obstore, name)

    def delete(self, store: Any, paths: list[str]) -> None:
        if self._has_stopped:
            self._obstore.delete(store, paths)
        else:
            self._has_stopped = True
            self._obstore.delete(store, paths[0])
            raise FileNotFoundError(paths[0])


def test_a_folder_is_deleted_whole_while_another_process_deletes_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_storage, "open_store", lambda url: stores.MemoryStore())
    storage = ObjectStorage("az://container")
    monkeypatch.setattr(storage, "_obstore", StopsOnce(storage._obstore))
    for path in ("a/1", "a/2", "a/3", "b"):
        storage.write(path, b"")
    storage.delete_folder("a")
    assert storage.list("") == ["b"]

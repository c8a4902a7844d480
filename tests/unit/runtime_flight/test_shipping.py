"""Does the code that slots need travel, and only that?"""

from __future__ import annotations

import io
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import msgspec
import pytest

from cutwater.deploy import bootstrap, shipping


def _module(name: str, file: Path) -> ModuleType:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"NAME = {name!r}\n")
    module = ModuleType(name)
    module.__file__ = str(file)
    return module


def _names(shipment: shipping.Shipment) -> list[str]:
    return zipfile.ZipFile(io.BytesIO(shipment.archive)).namelist()


def test_modules_travel_alone_and_packages_whole(tmp_path: Path) -> None:
    modules = {
        "helper": _module("helper", tmp_path / "helper.py"),
        "package": _module("package", tmp_path / "package/__init__.py"),
        "spaceless.part": _module("spaceless.part", tmp_path / "spaceless/part.py"),
    }
    (tmp_path / "package/words.txt").write_text("data")
    (tmp_path / "package/__pycache__").mkdir()
    (tmp_path / "package/__pycache__/x.pyc").write_bytes(b"")
    (tmp_path / "package/late.py").write_text("")
    assert _names(shipping.pack(modules)) == [
        "helper.py",
        "package/__init__.py",
        "package/late.py",
        "package/words.txt",
        "spaceless/part.py",
    ]


def test_what_is_installed_and_the_script_itself_stay(tmp_path: Path) -> None:
    modules = {
        "msgspec": msgspec,
        "zipfile": zipfile,
        "builtins": sys.modules["builtins"],
        "__main__": _module("__main__", tmp_path / "script.py"),
        "vendored": _module("vendored", tmp_path / "site-packages/vendored.py"),
    }
    assert _names(shipping.pack(modules)) == []


def test_cutwater_itself_travels_from_a_source_tree() -> None:
    assert "cutwater/deploy/slot_process.py" in _names(shipping.pack())


def test_equal_code_has_an_equal_digest(tmp_path: Path) -> None:
    modules = {"helper": _module("helper", tmp_path / "helper.py")}
    first, again = shipping.pack(modules), shipping.pack(modules)
    (tmp_path / "helper.py").write_text("NAME = 'changed'\n")
    assert (first == again, first.digest == shipping.pack(modules).digest) == (True, False)


def test_a_worker_that_ran_another_job_imports_the_new_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "_shared_folder", lambda: str(tmp_path / "executor"))
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "executor").mkdir()
    seen = []
    for version in ("one", "two", "two"):
        module = _module("shipped_helper", tmp_path / "shipped_helper.py")
        (tmp_path / "shipped_helper.py").write_text(f"NAME = {version!r}\n")
        shipment = shipping.pack({"shipped_helper": module})
        bootstrap._make_importable(shipment.archive, shipment.digest)
        import shipped_helper  # type: ignore[import-not-found]

        seen.append(shipped_helper.NAME)
    del sys.modules["shipped_helper"]
    assert seen == ["one", "two", "two"]

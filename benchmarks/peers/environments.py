"""Where does each peer live? In a virtual environment under `build/peers/`, made when it is first needed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path("build/peers")
INSTALL_SECONDS_MAX = 1_800
READY = ".requirements"


@dataclass(frozen=True, slots=True)
class PeerEnvironment:
    requirements: tuple[str, ...]
    #: Versions of Python that the peer has packages for.
    pythons: tuple[str, ...] = ("3.11", "3.12", "3.13")
    needs_java: bool = False


ENVIRONMENTS = {
    "flink": PeerEnvironment(("apache-flink==2.3.0",), pythons=("3.11", "3.10", "3.12"), needs_java=True),
    # PySpark 4.3 does not know pandas 3; its transformWithState needs protobuf, which comes with "connect".
    "spark": PeerEnvironment(("pyspark[sql,connect]==4.3.0", "pandas>=2.2,<3"), needs_java=True),
    # The newest one that we found the whole Kafka connector for, see `jars`.
    "spark-kafka": PeerEnvironment(("pyspark==4.0.0",), needs_java=True),
    "bytewax": PeerEnvironment(("bytewax==0.21.1", "pyarrow==26.0.1"), pythons=("3.11", "3.12", "3.10")),
    "pathway": PeerEnvironment(("pathway==0.33.0",)),
    "batch": PeerEnvironment(("polars==2.1.0", "duckdb==2.0.0", "pyarrow==26.0.1")),
}


class Unavailable(Exception):
    """A peer can't be run here; the text says why."""


def python_of(name: str) -> Path:
    """The Python of a peer's environment. May install it first, which takes minutes. Raises `Unavailable`."""
    wanted = ENVIRONMENTS[name]
    if wanted.needs_java and shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        raise Unavailable("there is no Java")
    folder = FOLDER.resolve() / name
    python = folder / "bin" / "python"
    marker = folder / READY
    listed = "\n".join(wanted.requirements)
    if python.exists() and marker.exists() and marker.read_text() == listed:
        return python
    shutil.rmtree(folder, ignore_errors=True)
    _call([_interpreter(wanted.pythons), "-m", "venv", str(folder)], "the virtual environment can't be made")
    _call([str(python), "-m", "pip", "install", "--quiet", *wanted.requirements], "pip can't install it")
    marker.write_text(listed)
    return python


def _interpreter(versions: tuple[str, ...]) -> str:
    """Our own Python if it will do, else one on the PATH. Some are only shims, so each must prove its version."""
    candidates = [sys.executable, *(found for version in versions if (found := shutil.which(f"python{version}")))]
    for candidate in candidates:
        said = subprocess.run(
            [candidate, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], capture_output=True, text=True
        )
        if said.returncode == 0 and said.stdout.strip() in versions:
            return candidate
    raise Unavailable(f"it needs Python {' or '.join(versions)}, and none of them is here")


def _call(command: list[str], complaint: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{complaint}: not done in {INSTALL_SECONDS_MAX} s") from None
    if done.returncode != 0:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["no message"]
        raise Unavailable(f"{complaint}: {last[0]}")

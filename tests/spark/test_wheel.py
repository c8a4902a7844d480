"""Is the wheel all that a user needs? Into an empty environment, outside the repository, with nothing from it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import venv
from collections import Counter
from pathlib import Path

import pytest

from cutwater.deploy.java import find_java_home

ROOT = Path(__file__).parents[2]
#: A full installation downloads a gigabyte, unless pip has it in its cache.
INSTALL_SECONDS_MAX = 900
#: What pip says when it can't reach an index.
NO_INDEX = re.compile(
    r"Could not find a version that satisfies|No matching distribution found|ConnectionError|NewConnectionError|"
    r"Max retries exceeded|Temporary failure in name resolution|Read timed out"
)

pytestmark = pytest.mark.timeout(INSTALL_SECONDS_MAX + 300)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment in which the wheel is all that was asked for."""
    folder = tmp_path_factory.mktemp("wheel")
    pip(sys.executable, "wheel", "--no-deps", "--wheel-dir", folder / "dist", ROOT)
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / "bin" / "python"
    (wheel,) = (folder / "dist").glob("cutwater-*.whl")
    pip(python, "install", wheel)
    return python


def test_the_first_job_of_the_readme_runs_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    code = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert code is not None
    (tmp_path / "wordcount.py").write_text(code[1])
    (tmp_path / "books").mkdir()
    (tmp_path / "books" / "short.txt").write_text("to be or not to be\n")
    cutwater(installed, tmp_path, "run", "wordcount.py")
    written = [
        json.loads(line) for path in (tmp_path / "out").glob("*.jsonl") for line in path.read_text().splitlines()
    ]
    counts = Counter(tuple(row.values()) if isinstance(row, dict) else tuple(row) for row in written)
    assert counts == Counter([("to", 1), ("to", 2), ("be", 1), ("be", 2), ("or", 1), ("not", 1)])


def test_nothing_of_the_repository_is_on_the_path(installed: Path, tmp_path: Path) -> None:
    said = run(installed, tmp_path, "-c", "import cutwater, sys; print(cutwater.__file__, *sys.path, sep='\\n')")
    assert Path(said.splitlines()[0]).is_relative_to(installed.parents[1])
    assert str(ROOT) not in said


def test_the_wheel_has_its_types_and_no_tests(installed: Path, tmp_path: Path) -> None:
    said = run(installed, tmp_path, "-c", "import cutwater; print(cutwater.__path__[0])").strip()
    assert (Path(said) / "py.typed").is_file()
    assert not (Path(said).parent / "tests").exists()


def cutwater(python: Path, folder: Path, *arguments: str) -> str:
    return run(python, folder, str(python.parent / "cutwater"), *arguments)


def run(python: Path, folder: Path, *arguments: str) -> str:
    """In an empty folder, with an environment of its own."""
    variables = {
        "PATH": f"{python.parent}:/usr/bin:/bin",
        "HOME": str(folder),
        # The machine's Java, or the one that these tests run with: what Java there is, is not what is tested here.
        "JAVA_HOME": str(find_java_home(os.environ)),
        "LANG": "C.UTF-8",
    }
    done = subprocess.run(
        [python, *arguments], cwd=folder, env=variables, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def pip(python: str | Path, *arguments: str | Path) -> None:
    done = subprocess.run(
        [python, "-m", "pip", *arguments, "--quiet", "--disable-pip-version-check"],
        capture_output=True,
        text=True,
        timeout=INSTALL_SECONDS_MAX,
        check=False,
    )
    if done.returncode and NO_INDEX.search(done.stderr) and os.environ.get("CUTWATER_REQUIRE_SERVERS") != "1":
        pytest.skip(f"the package index can't be reached: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr

"""Does a type checker, and so an editor, know what streams carry?"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("typed_program.py")
#: Starts servers of the repository, which users don't have.
NOT_FOR_USERS = ("real_servers.py",)


def errors_in(*files: Path) -> list[str]:
    """What mypy says of files of one folder, a line for each error."""
    options = ["--strict", "--follow-imports=silent", "--no-error-summary", f"--config-file={ROOT}/pyproject.toml"]
    folder = files[0].parent
    ran = subprocess.run(
        [sys.executable, "-m", "mypy", *options, *(file.name for file in files)],
        cwd=folder,
        env={**os.environ, "MYPYPATH": f"{ROOT}/src:{folder}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode in (0, 1), ran.stdout + ran.stderr
    return [line for line in ran.stdout.splitlines() if ": error: " in line]


def test_records_keys_and_results_are_inferred_and_mistakes_are_found() -> None:
    written = enumerate(PROGRAM.read_text().splitlines(), start=1)
    wrong = {number: found[1] for number, line in written if (found := re.search(r"# wrong: ([a-z-]+)$", line))}
    said = errors_in(PROGRAM)
    found = {int(line.split(":")[1]): line.rpartition("[")[2].rstrip("]") for line in said}
    assert found == wrong, "\n".join(said)
    assert len(wrong) > 8


def test_the_examples_pass_strict_checks() -> None:
    examples = (ROOT / "examples").glob("*.py")
    assert errors_in(*sorted(example for example in examples if example.name not in NOT_FOR_USERS)) == []

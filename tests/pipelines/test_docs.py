"""The programs in the pages do what the pages say."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

from cutwater.api.environment import Environment
from cutwater.testing.harness import LocalLauncher

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    "async",
    "broadcast",
    "errors",
    "event-time",
    "joins",
    "process-functions",
    "simulation",
    "testing",
    "tutorial",
    "typed-streams",
    "windows",
]
#: A program, and the output that the page shows right behind it.
PROGRAM = re.compile(r"```python\n(.*?)```\n\s*```text\n(.*?)```", re.DOTALL)


def programs() -> list[Any]:
    found = []
    for page in PAGES:
        text = (ROOT / "docs" / f"{page}.md").read_text()
        for match in PROGRAM.finditer(text):
            line = text[: match.start()].count("\n") + 1
            found.append(pytest.param(match[1], match[2], id=f"{page}.md:{line}"))
    return found


def test_every_page_has_programs() -> None:
    assert {str(program.id).partition(".")[0] for program in programs()} == set(PAGES)


@pytest.mark.parametrize(("program", "shown"), programs())
def test_a_program_prints_what_its_page_shows(
    program: str, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_spark = Environment.__init__

    def init(self: Environment, **options: Any) -> None:
        without_spark(self, **{"launcher": LocalLauncher(), **options})

    monkeypatch.setattr(Environment, "__init__", init)
    monkeypatch.chdir(tmp_path)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(program, "program.py", "exec"), {"__name__": "__main__"})
    assert printed.getvalue().strip() == shown.strip()

"""Does the job in the README run as it stands there, and is its picture the one that the code draws?"""

from __future__ import annotations

import re
import runpy
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from .pipelines import json_rows

ROOT = Path(__file__).parents[2]
PICTURE = ROOT / "docs" / "images" / "word-count.svg"


def test_the_job_in_the_readme(tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    code = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert code is not None
    (tmp_path / "wordcount.py").write_text(code[1])
    (tmp_path / "books").mkdir()
    (tmp_path / "books" / "short.txt").write_text("to be or not to be\n")
    monkeypatch.chdir(tmp_path)
    made = runpy.run_path("wordcount.py")
    assert Counter((row["key"], row["count"]) for row in json_rows(tmp_path / "out")) == Counter(
        [("to", 1), ("to", 2), ("be", 1), ("be", 2), ("or", 1), ("not", 1)]
    )
    # To draw it again: env.explain("word count").save_svg("docs/images/word-count.svg")
    assert made["env"].explain("word count").svg() == PICTURE.read_text()

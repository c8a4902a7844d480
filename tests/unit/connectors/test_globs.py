from __future__ import annotations

import glob
from pathlib import Path

import pytest

from cutwater.connectors.globs import fixed_prefix, is_finished_below, matcher

FILES = ["a.txt", "b.csv", "x/a.txt", "x/y/a.txt", "x/y/z/b.txt", "x1/a.txt", "x2/[a].txt", "xx/é b.txt", "x/a-b.txt"]
PATTERNS = [
    "*",
    "*.txt",
    "**/*.txt",
    "**",
    "x/**",
    "x/**/a.txt",
    "x?/*",
    "x[12]/*",
    "x[!1]/*",
    "x[0-9]/a.txt",
    "*/y/*",
    "**/y/**/*.txt",
    "x2/[[]a].txt",
    "nothing*",
    "x/a.txt",
    "x/a-?.txt",
]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_names_the_files_that_python_would_find(tmp_path: Path, pattern: str) -> None:
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    expected = {path for path in glob.glob(f"{tmp_path}/{pattern}", recursive=True) if Path(path).is_file()}
    matches = matcher(f"{tmp_path}/{pattern}")
    assert {str(tmp_path / name) for name in FILES if matches.fullmatch(str(tmp_path / name))} == expected


def test_the_fixed_prefix_is_the_folder_above_the_first_wildcard() -> None:
    assert [fixed_prefix(f"s3://bucket/{rest}") for rest in ("a/*.txt", "a/b*/c", "*")] == [
        "s3://bucket/a",
        "s3://bucket/a",
        "s3://bucket",
    ]


def test_what_lies_below_a_hidden_folder_is_unfinished_unless_the_root_is_in_it() -> None:
    path = "s3://bucket/.pending/x/part"
    assert (is_finished_below("s3://bucket", path), is_finished_below("s3://bucket/.pending", path)) == (False, True)

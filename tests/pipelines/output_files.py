"""What stands in the files of a folder, as someone else would read them?"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import duckdb

Rows = list[dict[str, Any]]


def json_rows(folder: Path) -> Rows:
    return [json.loads(line) for path in sorted(folder.glob("*.jsonl")) for line in path.open()]


def parquet_rows(folder: Path, columns: str) -> Iterable[tuple[Any, ...]]:
    if not any(folder.glob("*.parquet")):
        return []
    return duckdb.sql(f"select {columns} from '{folder}/*.parquet'").fetchall()

"""Nobody pays for what they don't use: Spark is imported when a job starts, not before."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import cutwater.errors
import cutwater.public


def modules_after(statement: str) -> set[str]:
    code = f"{statement}\nimport sys\nprint(*sys.modules)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("statement", ["import cutwater.public", "import cutwater.testing", "import cutwater.cli.main"])
def test_an_import_brings_neither_pyspark_nor_what_deploys_to_it(statement: str) -> None:
    assert modules_after(statement) & {"pyspark", "py4j", "cutwater.deploy.spark"} == set()


def test_the_import_of_cutwater_does_not_start_grpc() -> None:
    # gRPC must start after Spark has forked its worker, or the worker hangs.
    assert "pyarrow.flight" not in modules_after("import cutwater; cutwater.Environment")


@pytest.mark.parametrize(
    "statement",
    ["import cutwater.cli.main", "from cutwater.cli.completing import job_names; job_names('')"],
)
def test_help_and_completion_start_without_arrow(statement: str) -> None:
    assert modules_after(statement) & {"pyarrow", "numpy", "numba", "starlette"} == set()


def test_every_public_name_is_there() -> None:
    assert set(cutwater.__all__) == {*cutwater.public.__all__, "__version__"}
    assert all(getattr(cutwater, name) is not None for name in cutwater.__all__)
    assert not hasattr(cutwater, "environment")


def test_the_protocol_imports_the_standard_library_and_our_errors_only() -> None:
    allowed = {*sys.stdlib_module_names, "cutwater.protocol", "cutwater.errors"}
    folder = Path(cutwater.errors.__file__).parent / "protocol"
    others = {
        f"{path.name}: {name}"
        for path in folder.rglob("*.py")
        for name in imported_by(path)
        if not {name, name.partition(".")[0], ".".join(name.split(".")[:2])} & allowed
    }
    assert others == set()


def imported_by(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return names

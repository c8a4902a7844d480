"""Does a job run on a session that the user made, as a plain script does?"""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from cutwater.deploy.java import find_java_home

SCRIPT = """
    import cutwater as cw
    from pyspark.sql import SparkSession

    if __name__ == "__main__":
        spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
        python = spark.sparkContext.pythonExec
        env = cw.Environment(parallelism={parallelism}, spark=spark)
        print(env.from_collection([1, 2, 3]).map(lambda n: n * 2).execute_and_collect())
        assert spark.sparkContext.pythonExec == python, "the user's session is as it was"
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """Run by a Python of a virtual environment that is not activated: the `python3` of the path is another one."""
    (tmp_path / "bin").mkdir()
    other = tmp_path / "bin" / "python3"
    other.write_text('#!/bin/sh\necho "the wrong Python" >&2\nexit 1\n')
    other.chmod(other.stat().st_mode | stat.S_IXUSR)
    return tmp_path / "job.py"


def run(script: Path, *, parallelism: int) -> subprocess.CompletedProcess[str]:
    script.write_text(textwrap.dedent(SCRIPT.format(parallelism=parallelism)))
    kept = {name: os.environ[name] for name in ("HOME", "PYTHONPATH") if name in os.environ}
    return subprocess.run(
        [sys.executable, script],
        env={
            **kept,
            "PATH": f"{script.parent / 'bin'}:/usr/bin:/bin",
            "JAVA_HOME": str(find_java_home(os.environ)),
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
        cwd=script.parent,
    )


def test_slots_on_this_machine_run_the_python_of_the_script(script: Path) -> None:
    done = run(script, parallelism=2)
    assert done.returncode == 0, done.stderr[-2000:]
    assert sorted(done.stdout.strip().strip("[]").split(", ")) == ["2", "4", "6"]


def test_too_few_cores_are_refused_before_anything_starts(script: Path) -> None:
    started = time.monotonic()
    done = run(script, parallelism=4)
    assert "needs 4 slots, and this Spark has room for 2" in done.stderr
    assert time.monotonic() - started < 50, "it waited for slots"

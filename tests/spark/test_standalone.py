"""Does the job of the page on deployment run on a standalone cluster, by spark-submit, as the page says?"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pyspark
import pytest

from cutwater.deploy.java import find_java_home

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "deployment.md").read_text()
BIN = Path(pyspark.__file__).parent / "bin"


@pytest.fixture
def variables(tmp_path: Path) -> dict[str, str]:
    return {
        **os.environ,
        "PYTHONPATH": str(ROOT / "src"),
        "PYSPARK_PYTHON": sys.executable,
        "JAVA_HOME": str(find_java_home(os.environ)),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(tmp_path / "worker"),
        "CUTWATER_JOBS_FOLDER": str(tmp_path / "jobs"),
    }


@pytest.fixture
def master(tmp_path: Path, variables: dict[str, str]) -> Iterator[str]:
    """The address of a cluster with one worker of three cores."""
    port = free_port()
    url = f"spark://127.0.0.1:{port}"
    commands = [
        ["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port)],
        ["org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--cores", "3", "--memory", "1g", url],
    ]
    # A worker that comes before its master tries again.
    with (tmp_path / "cluster.log").open("w") as log:
        started = [
            subprocess.Popen(
                [BIN / "spark-class", *command, "--webui-port", str(free_port())],
                env=variables,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            for command in commands
        ]
    yield url
    for process in started:
        for child in psutil.Process(process.pid).children(recursive=True):
            child.kill()
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_the_job_of_the_page_runs_on_a_standalone_cluster(
    tmp_path: Path, master: str, variables: dict[str, str]
) -> None:
    for name, text in re.findall(r'```python title="([^"]+)"\n(.*?)```', PAGE, re.DOTALL):
        (tmp_path / name).write_text(text)
    typed = re.search(r"^\$ (spark-submit --master spark://.*)$", PAGE, re.MULTILINE)
    assert typed is not None
    command = typed[1].replace("spark://host:7077", master).replace("/shared/taxes", str(tmp_path / "taxes"))
    program, *arguments = shlex.split(command)
    done = subprocess.run(
        [BIN / program, *arguments],
        cwd=tmp_path,
        env=variables,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    lines = [line for path in (tmp_path / "taxes" / "totals").glob("*.jsonl") for line in path.read_text().splitlines()]
    first, *others = sorted(map(json.loads, lines))
    assert first in (["Bern", 108], ["Bern", 324]), "the orders of Bern come in either order"
    assert others == [["Bern", 432], ["Rome", 216]]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port

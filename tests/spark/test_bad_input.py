"""What a person sees when something is wrong: what, where, what to do, and no Java stack."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psutil
import pytest

CUTWATER = Path(sys.executable).parent / "cutwater"

JOB = """
import sys, threading, time
import cutwater as cw

def job(env, function=str):
    (env.from_collection(range(20)).map(function).key_by(lambda value: value).count()
        .sink_to(cw.sinks.json_lines(sys.argv[1] + "/out")))
    return env

def environment(**options):
    return cw.Environment(**{"parallelism": 1, "restart": cw.restart.none(), **options})
"""


def run(tmp_path: Path, script: str) -> subprocess.CompletedProcess[str]:
    path = tmp_path / "job.py"
    path.write_text(JOB + textwrap.dedent(script))
    return subprocess.run(
        [CUTWATER, "run", path, tmp_path], capture_output=True, text=True, timeout=200, check=False, cwd=tmp_path
    )


def assert_says(result: subprocess.CompletedProcess[str], *words: str) -> None:
    assert result.returncode in (1, 2), result.stderr
    for noise in ("Traceback", "org.apache.spark", "py4j", "at java."):
        assert noise not in result.stderr
    for word in words:
        assert word in result.stderr, result.stderr


def test_an_unknown_option(tmp_path: Path) -> None:
    assert_says(run(tmp_path, "environment(paralelism=2)"), "no option 'paralelism'", "did you mean 'parallelism'?")


def test_an_unserialisable_function(tmp_path: Path) -> None:
    script = """
        lock = threading.Lock()
        job(environment(), lambda value: lock.locked()).execute()
    """
    assert_says(run(tmp_path, script), "can't be sent to the cluster", "job.py:", '"lock"', "hint:")


def test_a_storage_that_cannot_be_written(tmp_path: Path) -> None:
    script = 'job(environment(checkpoints=cw.Checkpoints(storage="file:///proc/nowhere"))).execute()'
    assert_says(run(tmp_path, script), "/proc/nowhere", "hint:")


def test_a_guarantee_that_source_and_sink_cannot_give(tmp_path: Path) -> None:
    script = """
        env = environment()
        env.from_source(cw.sources.socket("127.0.0.1", 1)).sink_to(cw.sinks.stdout())
        env.execute(require="exactly_once")
    """
    assert_says(run(tmp_path, script), "asks for exactly once", "can't read again", "hint:")


def test_a_missing_input_file(tmp_path: Path) -> None:
    script = """
        env = environment()
        env.from_source(cw.sources.files("no/such/*.txt")).sink_to(cw.sinks.stdout())
        env.execute()
    """
    assert_says(run(tmp_path, script), "no/such/*.txt", "hint:")


def test_too_few_slots(tmp_path: Path) -> None:
    script = """
        from cutwater.deploy.session import embedded_session
        job(environment(spark=embedded_session(1), parallelism=3, slot_timeout="5s")).execute("wide")
    """
    assert_says(run(tmp_path, script), "job 'wide' needs 3 slots", "has 1 core at most", "hint:")


def test_a_record_that_a_function_chokes_on(tmp_path: Path) -> None:
    script = """
        def choke(value):
            return 10 // (value - 7)

        job(environment(), choke).execute()
    """
    result = run(tmp_path, script)
    assert_says(result, 'function "choke"', "ZeroDivisionError", "record: 7", "job.py:", "in choke")
    lines = [line for line in result.stderr.splitlines() if not line.startswith("cutwater: ")]
    assert lines[0].startswith('function "choke" of operator'), "the user's own function comes first"
    assert "no restart strategy" in result.stderr, "and why that was the end"


def test_a_checkpoint_directory_of_another_job(tmp_path: Path) -> None:
    script = """
        storage = cw.Checkpoints(every="100ms", storage="file://" + sys.argv[1] + "/checkpoints")
        job(environment(checkpoints=storage)).execute("first", job_id="same")
        job(environment(checkpoints=storage)).execute("second", job_id="same")
    """
    assert_says(run(tmp_path, script), 'are of job "first", not of "second"', "hint:")


@pytest.mark.parametrize("whole_group", [True, False], ids=["ctrl-c in a terminal", "SIGINT to the driver alone"])
def test_an_interrupt_leaves_no_process(tmp_path: Path, *, whole_group: bool) -> None:
    path = tmp_path / "job.py"
    path.write_text(
        JOB
        + textwrap.dedent("""
        env = environment(parallelism=2, checkpoints=cw.Checkpoints(every="200ms"))
        env.from_source(cw.sources.generator(lambda index: index, per_second=1000)).key_by(lambda value: value % 10)\\
            .count().sink_to(cw.sinks.json_lines(sys.argv[1] + "/out"))
        env.execute("endless")
    """)
    )
    process = subprocess.Popen(
        [CUTWATER, "run", path, tmp_path],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        cwd=tmp_path,
        # Whoever runs the tests in the background has it ignored, and so would all below.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        deadline = time.monotonic() + 100
        while not list(tmp_path.glob("out/*.jsonl")):
            assert process.poll() is None, process.stderr.read() if process.stderr else ""
            assert time.monotonic() < deadline
            time.sleep(0.05)
        family = psutil.Process(process.pid).children(recursive=True)
        assert len(family) >= 3, "a Java process and two workers at least"
        if whole_group:
            os.killpg(process.pid, signal.SIGINT)
        else:
            process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    _, alive = psutil.wait_procs(family, timeout=20)
    assert alive == []
    assert process.returncode == 130
    assert "Traceback" not in stderr, stderr

"""`cutwater run`: what belongs to it, what to the script, and what it tells the script's jobs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cutwater.cli.main import app
from cutwater.cli.run import split_arguments

OWN = {"--set": True, "--restore": True, "--detach": False}

SCRIPT = """
import sys
import cutwater as cw
env = cw.Environment(parallelism=1)
print(env.options.parallelism, env.options.checkpoints.every_seconds, sys.argv[1:])
"""


@pytest.fixture(autouse=True)
def _keep_the_interpreter_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(sys, "path", list(sys.path))


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "job.py"
    path.write_text(SCRIPT)
    return str(path)


def called(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["run", *arguments])


@pytest.mark.parametrize(
    ("given", "split"),
    [
        ("job.py --set a=b --fast --set c=d", "--set a=b -- job.py --fast --set c=d"),
        ("--set=a=b job.py --detach x", "--set=a=b --detach -- job.py x"),
        ("job.py -- --set a=b", "-- job.py --set a=b"),
        ("job.py --help", "-- job.py --help"),
        ("--help", "--help --"),
        ("--detach -- job.py --set a=b", "--detach -- job.py --set a=b"),
        ("--sett x job.py", "--sett -- x job.py"),
        ("job.py --restore", "--restore -- job.py"),
    ],
)
def test_options_stand_before_the_script_or_directly_behind_it(given: str, split: str) -> None:
    assert split_arguments(given.split(), OWN) == split.split()


def test_options_reach_the_scripts_environment_and_are_told_in_one_line(script: str) -> None:
    done = called(script, "--parallelism", "3", "--set", "checkpoints.every=5s", "--own")
    assert done.stdout == "3 5.0 ['--own']\n"
    assert done.stderr == "cutwater: the command line sets parallelism=3, checkpoints.every=5s\n"


def test_without_options_nothing_is_said(script: str) -> None:
    done = called(script)
    assert (done.stdout, done.stderr) == ("1 1.0 []\n", "")


def test_an_unknown_option_of_a_job_is_refused_before_the_script_runs(script: str) -> None:
    done = called(script, "--set", "paralelism=3")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        "there is no option 'paralelism'",
        "  hint:   did you mean 'parallelism'?",
    ]


def test_an_unknown_option_of_ours_is_refused(script: str) -> None:
    assert called("--sett", "a=b", script).exit_code == 2


def test_a_script_without_an_environment_is_told_that_options_had_no_effect(tmp_path: Path) -> None:
    path = tmp_path / "job.py"
    path.write_text("print('nothing')")
    assert "had no effect" in called(str(path), "--parallelism", "2").stderr


def test_a_server_and_a_master_exclude_each_other(script: str) -> None:
    done = called(script, "--remote", "sc://host", "--master", "local[2]")
    assert (done.exit_code, done.stderr.splitlines()[0]) == (2, "a session has one place")


def test_a_detached_job_needs_its_control_service(script: str) -> None:
    done = called(script, "--detach", "--set", "control=none")
    assert (done.exit_code, done.stderr.splitlines()[0]) == (2, "a detached job needs its control service")


def test_json_is_for_detached_jobs(script: str) -> None:
    assert called(script, "--json").exit_code == 2

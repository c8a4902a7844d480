"""The command line from the outside: what is printed, what is returned."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cutwater.cli.main import app


@pytest.fixture(autouse=True)
def _keep_the_interpreter_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(sys, "path", list(sys.path))


def script(folder: Path, text: str) -> str:
    path = folder / "job.py"
    path.write_text(text)
    return str(path)


def test_a_script_runs_as_main_with_its_own_arguments(tmp_path: Path) -> None:
    path = script(tmp_path, "import sys; print(__name__, sys.argv[1:])")
    assert CliRunner().invoke(app, ["run", path, "--fast", "-v"]).stdout == "__main__ ['--fast', '-v']\n"


def test_a_script_imports_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "neighbour_of_the_job.py").write_text("word = 'hello'")
    path = script(tmp_path, "import neighbour_of_the_job; print(neighbour_of_the_job.word)")
    assert CliRunner().invoke(app, ["run", path]).stdout == "hello\n"


def test_the_scripts_exit_code_is_kept(tmp_path: Path) -> None:
    assert CliRunner().invoke(app, ["run", script(tmp_path, "raise SystemExit(9)")]).exit_code == 9


def test_a_users_error_ends_with_two_and_its_words_on_standard_error(tmp_path: Path) -> None:
    path = script(tmp_path, "from cutwater.errors import GraphError\nraise GraphError('no sink', hint='add one')")
    result = CliRunner().invoke(app, ["run", path])
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", "no sink\n  hint:   add one\n")


def test_verbose_shows_the_stack_trace_of_an_error_of_ours(tmp_path: Path) -> None:
    path = script(tmp_path, "from cutwater.errors import GraphError\nraise GraphError('no sink')")
    result = CliRunner().invoke(app, ["run", "--verbose", path])
    assert (result.exit_code, "Traceback" in result.stderr) == (2, True)


def test_a_surprise_in_a_script_shows_the_scripts_frames_only(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["run", script(tmp_path, "1 / 0")])
    frames = [line for line in result.stderr.splitlines() if line.startswith("  File")]
    assert (result.exit_code, frames) == (1, [f'  File "{tmp_path}/job.py", line 1, in <module>'])


def test_a_missing_script_is_named() -> None:
    result = CliRunner().invoke(app, ["run", "nowhere.py"])
    assert (result.exit_code, result.stderr.splitlines()[0]) == (2, 'there is no script "nowhere.py"')


def test_an_unknown_option_is_a_usage_error() -> None:
    assert CliRunner().invoke(app, ["simulate", "--sedes", "3"]).exit_code == 2


def test_help_lists_only_commands_that_exist() -> None:
    names = {command.name or command.callback.__name__ for command in app.registered_commands if command.callback}
    of_jobs = {"list", "status", "checkpoints", "exceptions", "checkpoint", "savepoint", "stop", "cancel", "rescale"}
    assert names == of_jobs | {
        "connectors",
        "dashboard",
        "demo",
        "doctor",
        "logs",
        "run",
        "simulate",
        "top",
        "version",
        "warm_up",
    }

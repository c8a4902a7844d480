"""What happens to a job when a cell of a notebook is run again?"""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

import cutwater as cw

from .launchers import FakeLauncher


class Notebook:
    """Stands in for IPython's shell, as far as it is asked."""

    def __init__(self) -> None:
        self.execution_count = 0
        self.user_ns: dict[str, Any] = {"In": [""]}
        self.cell_id: str | None = None

    def get_parent(self) -> dict[str, Any]:
        return {"metadata": {} if self.cell_id is None else {"cellId": self.cell_id}}

    def run(self, source: str, cell_id: str | None = None) -> None:
        """What follows is run by this cell."""
        self.execution_count += 1
        self.user_ns["In"].append(source)
        self.cell_id = cell_id


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Notebook:
    shell = Notebook()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    return shell


@pytest.fixture
def env() -> cw.Environment:
    return cw.Environment(launcher=FakeLauncher())


def operators(env: cw.Environment) -> list[str]:
    return list(env._dataflow.graph.nodes)


def job(env: cw.Environment) -> cw.DataStream:
    stream = env.from_collection([1], uid="in")
    stream.map(str).sink_to(cw.sinks.discard(), uid="out")
    return stream


def test_a_cell_that_is_run_twice_replaces_what_it_made(env: cw.Environment, notebook: Notebook) -> None:
    for _ in range(2):
        notebook.run("job(env)")
        job(env)
    assert operators(env) == ["in", "map-2", "out"]


def test_a_cell_that_was_changed_in_between_is_still_the_same(env: cw.Environment, notebook: Notebook) -> None:
    notebook.run("job(env)", cell_id="a")
    job(env)
    notebook.run("env.from_collection([2], uid='in')", cell_id="a")
    env.from_collection([2], uid="in")
    assert operators(env) == ["in"]


def test_what_other_cells_made_of_it_goes_too_and_says_so(env: cw.Environment, notebook: Notebook) -> None:
    notebook.run("numbers = …")
    numbers = env.from_collection([1], uid="in")
    notebook.run("other = …")
    other = env.from_collection([2], uid="other")
    notebook.run("texts = …")
    texts = numbers.union(other).map(str, uid="texts")
    notebook.run("numbers = …")
    env.from_collection([1], uid="in")
    assert operators(env) == ["other", "in"]
    with pytest.raises(cw.errors.GraphError, match="was run again"):
        texts.map(len)
    with pytest.raises(cw.errors.GraphError, match="was run again"):
        texts.execute_and_collect()


def test_two_cells_with_one_uid_are_a_mistake(env: cw.Environment, notebook: Notebook) -> None:
    notebook.run("one")
    env.from_collection([1], uid="in")
    notebook.run("two")
    with pytest.raises(cw.errors.GraphError, match='two operators have the uid "in"'):
        env.from_collection([1], uid="in")


def test_one_uid_twice_in_one_run_of_a_cell_is_a_mistake(env: cw.Environment, notebook: Notebook) -> None:
    notebook.run("one")
    env.from_collection([1], uid="in")
    with pytest.raises(cw.errors.GraphError, match='two operators have the uid "in"'):
        env.from_collection([1], uid="in")


def test_outside_of_a_notebook_a_uid_is_taken_for_good(env: cw.Environment) -> None:
    job(env)
    with pytest.raises(cw.errors.GraphError, match='two operators have the uid "in"'):
        job(env)

"""Does the notebook for newcomers run from top to bottom, and come to the right result?"""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[2] / "examples" / "first_hour.ipynb"


@pytest.fixture
def notebook() -> nbformat.NotebookNode:
    return nbformat.read(NOTEBOOK, as_version=4)


def test_a_worker_is_killed_in_the_notebook_and_the_counts_are_identical(
    notebook: nbformat.NotebookNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    NotebookClient(notebook, timeout=280, kernel_name="python3", resources={"metadata": {"path": tmp_path}}).execute()
    shown = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    kinds = {kind for output in shown for kind in output.get("data", ())}
    assert {"image/svg+xml", "text/html", "image/png"} <= kinds, (
        "the plan, a table of the state, a chart of checkpoints"
    )
    pages = [output.data["text/html"] for output in shown if "text/html" in output.get("data", ())]
    (card,) = [page for page in pages if "word count" in page and "checkpoint" in page]
    assert any("<svg" in page and "DataStream of count" in page for page in pages), "a stream shows itself"
    assert "finished" in card, "the card has followed the job to its end"
    assert "duration of checkpoints" in card
    assert shown[-1].text.splitlines()[-1] == "identical"


def test_the_notebook_is_kept_without_what_it_showed(notebook: nbformat.NotebookNode) -> None:
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [(cell.outputs, cell.execution_count) for cell in code] == [([], None)] * len(code)

"""What is on the site besides the pages in docs/?

README, CONTRIBUTING and CHANGELOG, every example as a page of its own, and the reference, made from `__all__` and from
the commands themselves: a name that is exported is in it. Links between files of the repository become links between
pages.
"""

from __future__ import annotations

import json
import re
import types
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
#: Files at the top of the repository, and the pages they become.
TOP = {"README.md": "index.md", "CONTRIBUTING.md": "CONTRIBUTING.md", "CHANGELOG.md": "CHANGELOG.md"}
LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)\s#]*)(#[^)\s]*)?\)")

CONTEXTS = (
    "cutwater.operators.process.FunctionContext",
    "cutwater.operators.connect.BroadcastContext",
    "cutwater.state.contract.ValueState",
    "cutwater.state.contract.ListState",
    "cutwater.state.contract.MapState",
    "cutwater.state.contract.ReducingState",
    "cutwater.state.contract.AggregatingState",
    "cutwater.state.contract.Aggregate",
)
CONTRACT = (
    "cutwater.connectors.contract.Source",
    "cutwater.connectors.contract.SplitReader",
    "cutwater.connectors.contract.Sink",
    "cutwater.connectors.contract.SinkWriter",
)


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File

    for uri, text in {**pages_of_the_repository(), **reference_pages()}.items():
        files.append(File.generated(config, uri, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Pages in docs/ link to `../examples/x.py`, so that the links work in the repository too."""
    if "/" in page.file.src_uri:  # made here, with links of the site
        return markdown
    return LINK.sub(lambda link: f"]({as_page(link[1].removeprefix('../'))}{link[2] or ''})", markdown)


def as_page(target: str) -> str:
    """The page that a file of the repository has become; anything else stays as it is."""
    if target in TOP:
        return TOP[target]
    if re.fullmatch(r"examples/\w+\.(py|ipynb)", target):
        return target.rpartition(".")[0] + ".md"
    return target


def pages_of_the_repository() -> dict[str, str]:
    pages = {page: _linked_from_docs((ROOT / file).read_text()) for file, page in TOP.items()}
    for path in sorted((ROOT / "examples").glob("*.py")):
        pages[f"examples/{path.stem}.md"] = f"# {path.name}\n\n```python\n{path.read_text()}```\n"
    for path in sorted((ROOT / "examples").glob("*.ipynb")):
        pages[f"examples/{path.stem}.md"] = "\n\n".join(_cells(path)).replace("](../docs/", "](../")
    pages["LICENSE.md"] = f"# License\n\n```text\n{(ROOT / 'LICENSE').read_text()}```\n"
    return pages


def _linked_from_docs(text: str) -> str:
    return text.replace("](docs/", "](").replace("](LICENSE)", "](LICENSE.md)")


def _cells(notebook: Path) -> Iterator[str]:
    for cell in json.loads(notebook.read_text())["cells"]:
        source = "".join(cell["source"])
        yield source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```"


def reference_pages() -> dict[str, str]:
    """By path on the site."""
    cutwater = import_module("cutwater")
    exported = [name for name in cutwater.__all__ if not name.startswith("__")]
    modules = {name for name in exported if isinstance(getattr(cutwater, name), types.ModuleType)}
    objects = [f"cutwater.{name}" for name in exported if name not in modules]
    pages = {"reference/cutwater.md": _page("cutwater", "`import cutwater as cw`", objects)}
    for name in sorted(modules):
        module = getattr(cutwater, name)
        pages[f"reference/{name}.md"] = _page(
            f"cutwater.{name}", "", [f"{module.__name__}.{public}" for public in public_names(module)]
        )
    testing = [
        f"{module}.{name}"
        for module in ("cutwater.testing", "cutwater.testing.connectors")
        for name in import_module(module).__all__
    ]
    pages["reference/testing.md"] = _page("cutwater.testing", "See [testing a job](../testing.md).", testing)
    pages["reference/contexts.md"] = _page(
        "Contexts and state", "What a [process function](../process-functions.md) is given.", CONTEXTS
    )
    pages["reference/connectors.md"] = _page(
        "Contract of connectors", "See [writing a connector](../writing-connectors.md).", CONTRACT
    )
    pages["reference/command-line.md"] = command_line()
    return pages


def public_names(module: types.ModuleType) -> list[str]:
    """Its `__all__`; of a module without one, the classes and functions that it defines."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]


def _page(title: str, introduction: str, names: Any) -> str:
    return "\n\n".join([f"# {title}", introduction, *(f"::: {name}" for name in names)]) + "\n"


def command_line() -> str:
    import typer

    from cutwater.cli.main import app

    blocks = list(_commands(typer.main.get_command(app), "cutwater"))
    return "\n\n".join(["# Command line", *blocks]) + "\n"


def _commands(command: Any, path: str) -> Iterator[str]:
    subcommands = getattr(command, "commands", None)
    if subcommands is not None:
        for name, subcommand in sorted(subcommands.items()):
            yield from _commands(subcommand, f"{path} {name}")
        return
    yield f"## {path}"
    yield "\n".join(line.strip() for line in (command.help or "").splitlines())
    rows = [_row(parameter) for parameter in command.params if parameter.name != "help"]
    if rows:
        yield "\n".join(["| argument | meaning |", "|---|---|", *rows])


def _row(parameter: Any) -> str:
    is_option = getattr(parameter, "param_type_name", "") == "option"
    named = ", ".join(parameter.opts) if is_option else (parameter.metavar or parameter.name.upper())
    text = (getattr(parameter, "help", "") or "").replace("|", "\\|")
    default = parameter.default
    if is_option and isinstance(default, str | int | float) and not isinstance(default, bool):
        text += f" Default: {default}."
    return f"| `{named}` | {text} |"

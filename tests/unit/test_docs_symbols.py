"""Does everything exist that the pages name: functions, modules, commands, options, files?"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

import cutwater
from cutwater.api.environment import Environment
from cutwater.api.jobs import JobHandle
from cutwater.cli.main import app

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "cutwater"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
MODULES = "agg|evictors|formats|partitions|restart|retry|sinks|sources|triggers|watermarks"
#: Options that belong to other programs: spark-submit, pip, venv and tools of the repository.
OTHERS = {
    *("--master", "--conf", "--archives", "--py-files", "--supervise", "--deploy-mode", "--executor-memory"),
    *("--no-deps", "--wheel-dir", "--brief", "--kafka", "--postgres", "--cores", "--memory"),
}
#: A code span on one line, or a fenced block.
CODE = re.compile(r"```[^\n]*\n(.*?)```|`([^`\n]+)`", re.DOTALL)

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def code_of(page: Path) -> Iterator[str]:
    for match in CODE.finditer(page.read_text()):
        yield match[1] or match[2]


@each_page
def test_every_public_name_exists(page: Path) -> None:
    text = page.read_text()
    named = re.findall(r"\bcw\.([A-Za-z_][\w.]*)", text)
    named += [f"{module}.{name}" for module, name in re.findall(rf"(?<![\w./])({MODULES})\.([a-z_]\w*)\b(?!=)", text)]
    assert [name for name in named if not is_public(name.rstrip("."))] == []


@each_page
def test_every_module_exists(page: Path) -> None:
    named = {name.rstrip(".") for code in code_of(page) for name in re.findall(r"\bcutwater(?:\.\w+)+", code)}
    assert [name for name in sorted(named - loggers()) if not is_module_or_name(name)] == []


@each_page
def test_methods_of_the_environment_and_of_jobs_exist(page: Path) -> None:
    named = [found for code in code_of(page) for found in re.findall(r"(?<![\w.])(env|job)\.([a-z_]+)\b", code)]
    owners = {"env": Environment, "job": JobHandle}
    missing = {f"{owner}.{name}" for owner, name in named if name != "py" and not hasattr(owners[owner], name)}
    assert missing == set()


@each_page
def test_every_command_and_option_exists(page: Path) -> None:
    assert [fault for code in code_of(page) for fault in faults_of_commands(code)] == []


@each_page
def test_every_file_of_the_source_exists(page: Path) -> None:
    """Bare names of files count on the page about the architecture, which names where they are as it goes along."""
    named = {path for code in code_of(page) for path in re.findall(r"(?<![\w./-])[\w/*-]+\.py\b", code)}
    if page.name != "architecture.md":
        named = {path for path in named if "/" in path}
    assert [path for path in sorted(named) if not is_file(path)] == []


def test_the_classes_and_functions_of_the_architecture_page_exist() -> None:
    spans = re.findall(r"`([A-Za-z_][\w.]*)(?:\([^`]*\))?`", (ROOT / "docs" / "architecture.md").read_text())
    names = {part for span in spans if not span.endswith((".py", ".js")) for part in span.split(".")}
    assert sorted(names - defined() - {"pyarrow", "fs"}) == []


def is_public(name: str) -> bool:
    """Below `cutwater`, the module that users import."""
    value: Any = cutwater
    for part in name.split("."):
        if part in {"py", "md"}:  # a file, after all
            return True
        # Options of dataclasses have no value in their class.
        if part in getattr(value, "__annotations__", {}):
            return True
        try:
            value = getattr(value, part)
        except AttributeError:
            return False
    return True


@cache
def loggers() -> frozenset[str]:
    texts = (path.read_text() for path in sorted(SOURCE.rglob("*.py")))
    return frozenset(name for text in texts for name in re.findall(r'getLogger\("([\w.]+)"\)', text))


@cache
def is_module_or_name(name: str) -> bool:
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            value: Any = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError as error:
            if error.name is None or not error.name.startswith("cutwater"):
                return True  # there, and needs what unit tests don't import
            continue
        for part in parts[length:]:
            if not hasattr(value, part):
                return False
            value = getattr(value, part)
        return True
    return False


@cache
def commands() -> dict[str, set[str]]:
    """`state list` → its options."""
    found: dict[str, set[str]] = {}

    def look(command: Any, path: str, inherited: set[str]) -> None:
        options = inherited | {
            option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)
        }
        for name, subcommand in getattr(command, "commands", {}).items():
            look(subcommand, f"{path} {name}".strip(), options)
        found[path] = options

    look(typer.main.get_command(app), "", {"--help"})
    return found


def faults_of_commands(code: str) -> Iterator[str]:
    for line in code.splitlines():
        if re.match(r"\s*(import|from) ", line):
            continue
        for typed in re.findall(r"(?:^|[$/ (])cutwater (?!cutwater )([a-z][^`\n)]*)", line):
            yield from faults_of_command(typed)
    if code.startswith("--"):
        known = set().union(*commands().values()) | OTHERS
        yield from (option for option in options_in(code) if option not in known)


def faults_of_command(typed: str) -> Iterator[str]:
    """Of `state show PATH a b --trust`, or of several in one: `list | status`."""
    words = typed.split()
    command = words[0]
    if command == "state" and len(words) > 1:
        command = f"state {words[1]}"
    if command not in commands():
        yield f"cutwater {command}"
        return
    alone = typed.split(" | ")[0]
    yield from (
        f"cutwater {command} {option}"
        for option in options_in(alone)
        if option not in commands()[command] | commands()[""] | OTHERS
    )
    if all(re.fullmatch(r"[a-z-]+", part) for part in typed.split(" | ")[1:]):
        prefix = "state " if command.startswith("state ") else ""
        yield from (
            f"cutwater {prefix}{part}" for part in typed.split(" | ")[1:] if f"{prefix}{part}" not in commands()
        )


def options_in(text: str) -> list[str]:
    return re.findall(r"(?<![\w-])--[a-z][a-z-]*", text)


@cache
def files() -> tuple[str, ...]:
    folders = ("src/cutwater", "tests", "examples", "servers", "benchmarks", "docs")
    return tuple(str(path.relative_to(ROOT)) for folder in folders for path in sorted((ROOT / folder).rglob("*.py")))


def is_file(named: str) -> bool:
    pattern = re.compile(rf"(?:.*/)?{re.escape(named).replace(re.escape('*'), '[^/]*')}")
    return any(pattern.fullmatch(path) for path in files())


@cache
def defined() -> frozenset[str]:
    """Classes, functions, parameters, attributes and names in quotes, and modules and packages, of ours."""
    definition = re.compile(r"^\s*(?:class|def|async def) (\w+)|\b(\w+)\s*[:=]|\"(\w+)\"", re.MULTILINE)
    paths = sorted(SOURCE.rglob("*.py"))
    names = {name for path in paths for found in definition.findall(path.read_text()) for name in found}
    return frozenset(names | {path.stem for path in paths} | {path.parent.name for path in paths})

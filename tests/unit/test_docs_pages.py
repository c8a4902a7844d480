"""Do the pages lead to each other, and is each of them on the site?"""

from __future__ import annotations

import importlib.util
import re
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

import cutwater

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
LINK = re.compile(r"\[[^\]]*\]\((?!https?:|mailto:)([^)\s#]*)(?:#([^)\s]*))?\)")
CODE_BLOCK = re.compile(r"^( *)```.*?^\1```", re.DOTALL | re.MULTILINE)
HEADING = re.compile(r"^#{1,6} (.*)$", re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    broken = []
    for target, anchor in LINK.findall(CODE_BLOCK.sub("", page.read_text())):
        path = (page.parent / target) if target else page
        if not path.exists() or (anchor and path.suffix == ".md" and anchor not in anchors_of(path)):
            broken.append(f"{target}#{anchor}")
    assert broken == []


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    pages = {path.name for path in (ROOT / "docs").glob("*.md")}
    assert pages - navigation() == set()


def test_the_navigation_leads_to_pages_that_exist() -> None:
    made = {*hooks().pages_of_the_repository(), *hooks().reference_pages()}
    pages = {path.name for path in (ROOT / "docs").glob("*.md")}
    assert navigation() - pages - made == set()


def test_every_page_of_the_reference_is_in_the_navigation() -> None:
    assert set(hooks().reference_pages()) - navigation() == set()


def test_every_public_name_is_in_the_reference() -> None:
    """Of a module that is exported, the names that it has: `cutwater.sources`, `cutwater.agg`, …"""
    reference = "\n".join(hooks().reference_pages().values())
    described = set(re.findall(r"^::: (.*)$", reference, re.MULTILINE))
    for name in cutwater.__all__:
        value = getattr(cutwater, name)
        if isinstance(value, ModuleType):
            names = hooks().public_names(value)
            assert names, name
            assert {f"{value.__name__}.{public}" for public in names} <= described
        elif not name.startswith("__"):
            assert f"cutwater.{name}" in described


def test_every_command_is_in_the_reference() -> None:
    text = hooks().command_line()
    for command in ("run", "list", "savepoint", "simulate", "state show"):
        assert f"## cutwater {command}\n" in text
    assert "`--savepoint`" in text


def test_the_readme_is_short_and_keeps_the_commands_to_begin_with() -> None:
    text = (ROOT / "README.md").read_text()
    prose = LINK.sub("", CODE_BLOCK.sub("", text))
    assert len(prose.split()) < 650
    assert {"make demo", "make test", "pip install cutwater"} <= set(
        re.findall(r"make \w+|pip install cutwater\b", text)
    )


def navigation() -> set[str]:
    _, _, nav = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")
    return set(re.findall(r": ([\w/-]+\.md)$", nav, re.MULTILINE))


@cache
def anchors_of(path: Path) -> set[str]:
    """As GitHub and the site make them from headings."""
    headings = HEADING.findall(CODE_BLOCK.sub("", path.read_text()))
    return {re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower()).strip().replace(" ", "-") for heading in headings}


@cache
def hooks() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_hooks", ROOT / "docs" / "site" / "hooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

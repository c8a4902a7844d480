"""Does `make docs` build the site without a warning, and does a page of it fetch anything from elsewhere?"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: Tags that fetch what they name; `a` only leads there.
FETCHING = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}
#: A link that says where a page or its neighbours are, and fetches nothing.
PASSIVE = {"canonical", "prev", "next", "alternate"}

pytestmark = [
    pytest.mark.timeout(400),  # a quarter of a minute, unless the machine is busy
    pytest.mark.skipif(
        importlib.util.find_spec("mkdocs") is None or importlib.util.find_spec("mkdocstrings") is None,
        reason="MkDocs is not installed: make docs installs it (the extra docs)",
    ),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_no_page_fetches_anything_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 40
    assert {f"{page.name}: {url}" for page in pages for url in fetched_by(page) if is_elsewhere(url)} == set()


def test_no_style_sheet_fetches_fonts_or_pictures_from_elsewhere(site: Path) -> None:
    sheets = list(site.rglob("*.css"))
    assert sheets
    assert [sheet.name for sheet in sheets if "url(http" in sheet.read_text() or "@import" in sheet.read_text()] == []


def test_the_reference_shows_signatures_and_docstrings(site: Path) -> None:
    text = (site / "reference" / "sources.html").read_text()
    assert "kafka" in text
    assert "postgres_changes" in text
    text = (site / "reference" / "cutwater.html").read_text()
    assert "execute_and_collect" in text
    assert "Idle slots kept ready to take over from a lost one." in text, "the comment above an option"


def test_the_home_page_is_the_readme(site: Path) -> None:
    assert "kill -9" in (site / "index.html").read_text()


def fetched_by(page: Path) -> Iterator[str]:
    parser = _Fetched()
    parser.feed(page.read_text())
    yield from parser.urls


def is_elsewhere(url: str) -> bool:
    return url.startswith(("http:", "https:", "//"))


class _Fetched(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.urls: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        named = dict(attributes)
        if tag == "link" and set((named.get("rel") or "").split()) <= PASSIVE:
            return
        url = named.get(FETCHING.get(tag, ""))
        if url:
            self.urls.append(url)

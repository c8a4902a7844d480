"""The command that opens the page. A real service, and a browser that is only noted."""

from __future__ import annotations

import os
import re
import webbrowser
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.serving.stand_in import StandInJob
from typer.testing import CliRunner

from cutwater.cli.main import app
from cutwater.config import Control
from cutwater.serving.registry import FOLDER_VARIABLE, Registration, register, this_host
from cutwater.serving.service import ControlService

pytestmark = pytest.mark.threads


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ControlService]:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "jobs"))
    made = ControlService(StandInJob(), Control())
    kept = register(
        Registration("orders", "orders", made.address, made.tokens.change, this_host(), os.getpid(), 1, page=made.page)
    )
    yield made
    kept.withdraw()
    made.close()


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(webbrowser, "open", lambda address: found.append(address) or True)
    return found


def test_the_page_is_opened_with_a_code_and_without_the_token(service: ControlService, opened: list[str]) -> None:
    done = CliRunner().invoke(app, ["dashboard", "orders"])
    assert done.exit_code == 0
    assert re.fullmatch(re.escape(service.address) + r"/#[\w-]{43}", opened[0])
    assert done.stdout == f"the dashboard is at {service.address}\n"
    assert service.tokens.change not in opened[0]


@pytest.mark.parametrize("arguments", [["--no-open"], []])
def test_without_a_browser_the_address_is_printed(
    service: ControlService, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    done = CliRunner().invoke(app, ["dashboard", "orders", *arguments])
    first, second = done.stdout.splitlines()
    assert re.fullmatch(re.escape(service.address) + r"/#[\w-]{43}", first)
    assert second == "This address signs you in, once, within 60 seconds."

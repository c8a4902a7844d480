"""What a browser gets, and how it signs in. Real sockets, a job that runs nowhere."""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.unit.serving.stand_in import StandInJob

from cutwater.config import Control
from cutwater.serving.client import JobClient
from cutwater.serving.page import dashboard_files
from cutwater.serving.registry import Registration
from cutwater.serving.service import ControlService

pytestmark = pytest.mark.threads

READ_TOKEN = "only-for-those-who-look"


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    text: str


class Browser:
    """Keeps cookies, and nothing else."""

    def __init__(self, folder: Path) -> None:
        self.job = StandInJob()
        read_only = folder / "read-only"
        read_only.write_text(READ_TOKEN)
        self.service = ControlService(self.job, Control(read_only_token_file=str(read_only)))
        self.token = self.service.tokens.change
        self.cookie = ""

    def ask(self, method: str, path: str, body: str = "", **headers: str) -> Answer:
        connection = http.client.HTTPConnection(urlsplit(self.service.address).netloc, timeout=30)
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body or None, given | ({"cookie": self.cookie} if self.cookie else {}))
        response = connection.getresponse()
        answer = Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read().decode())
        connection.close()
        if "set-cookie" in answer.headers:
            self.cookie = answer.headers["set-cookie"].partition(";")[0]
        return answer

    def sign_in(self, secret: str) -> Answer:
        return self.ask("POST", "/session", authorization=f"Bearer {secret}")


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    made = Browser(tmp_path)
    yield made
    made.service.close()


def test_without_a_session_the_page_is_a_form_that_stands_alone(browser: Browser) -> None:
    answer = browser.ask("GET", "/")
    assert answer.status == 401
    assert 'id="token"' in answer.text
    assert "/assets/" not in answer.text
    assert "orders" not in answer.text  # not even the name of the job
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; ")
    for element in ("script", "style"):
        found = re.search(rf"<{element}>(.*?)</{element}>", answer.text, re.DOTALL)
        assert found is not None
        digest = base64.b64encode(hashlib.sha256(found[1].encode()).digest()).decode()
        assert f"{element}-src 'sha256-{digest}'" in policy


def test_a_token_becomes_a_session_and_is_not_needed_any_more(browser: Browser) -> None:
    answer = browser.sign_in(browser.token)
    assert (answer.status, json.loads(answer.text)) == (200, {"access": "change"})
    assert browser.token not in answer.headers["set-cookie"]
    attributes = answer.headers["set-cookie"].partition(";")[2].lower()
    assert "httponly" in attributes
    assert "samesite=strict" in attributes
    assert "max-age=43200" in attributes
    assert browser.ask("GET", "/jobs/orders").status == 200


def test_the_page_may_load_nothing_but_its_own(browser: Browser) -> None:
    browser.sign_in(browser.token)
    page = browser.ask("GET", "/")
    assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert page.headers["content-security-policy"].startswith("default-src 'self'; ")
    assert page.headers["x-content-type-options"] == "nosniff"
    assert page.headers["cache-control"] == "no-store"
    assert "frame-ancestors 'none'" in page.headers["content-security-policy"]


def test_every_file_that_is_named_is_there(browser: Browser) -> None:
    browser.sign_in(browser.token)
    names = {
        name for content in dashboard_files().values() for name in re.findall(r"/assets/([\w.]+)", content.decode())
    }
    assert {"main.js", "base.css", "graph.js", "barrier.js"} < names
    assert {name: browser.ask("GET", f"/assets/{name}").status for name in names} == dict.fromkeys(names, 200)
    assert names == {name for name in dashboard_files() if not name.endswith(".html")}


@pytest.mark.parametrize("path", ["/assets/", "/assets/none.js", "/assets/../page.py", "/assets/%2e%2e/page.py"])
def test_no_path_is_that_of_a_file(browser: Browser, path: str) -> None:
    browser.sign_in(browser.token)
    assert browser.ask("GET", path).status == 404


def test_nothing_of_the_page_is_inline(browser: Browser) -> None:
    page = dashboard_files()["index.html"].decode()
    assert re.search(r"\son\w+=|\sstyle=|<style|<script>|https?://", page) is None


def test_what_is_asked_by_a_cookie_must_come_from_the_page(browser: Browser) -> None:
    browser.sign_in(browser.token)
    assert browser.ask("POST", "/jobs/orders/cancel").status == 403
    assert browser.job.asked == []
    assert browser.ask("POST", "/jobs/orders/cancel", x_cutwater="page").status == 202
    assert browser.job.asked == ["cancel"]


def test_a_session_of_who_may_only_look_changes_nothing(browser: Browser) -> None:
    assert json.loads(browser.sign_in(READ_TOKEN).text) == {"access": "read"}
    assert browser.ask("GET", "/").status == 200
    assert json.loads(browser.ask("GET", "/session").text) == {"access": "read"}
    assert browser.ask("POST", "/jobs/orders/checkpoints", x_cutwater="page").status == 403
    assert browser.job.asked == []


def test_a_code_signs_in_once(browser: Browser) -> None:
    client = JobClient(Registration("orders", "orders", browser.service.address, browser.token, "here", 1, 0))
    code = client.session_code().code
    assert browser.ask("GET", "/jobs", authorization=f"Bearer {code}").status == 401  # it is no token
    assert browser.sign_in(code).status == 200
    browser.cookie = ""
    assert browser.sign_in(code).status == 401


def test_a_session_makes_no_codes_and_no_sessions(browser: Browser) -> None:
    browser.sign_in(browser.token)
    for path in ("/session", "/session/codes"):
        assert browser.ask("POST", path, x_cutwater="page").status == 403


def test_a_wrong_token_does_not_count_beside_a_good_cookie(browser: Browser) -> None:
    browser.sign_in(browser.token)
    assert browser.ask("GET", "/jobs", authorization="Bearer wrong").status == 401


def test_who_signs_out_sees_the_form_again(browser: Browser) -> None:
    browser.sign_in(browser.token)
    kept = browser.cookie
    assert browser.ask("DELETE", "/session", x_cutwater="page").status == 200
    browser.cookie = kept
    assert browser.ask("GET", "/").status == 401


def test_the_cookies_of_two_jobs_of_one_host_are_told_apart(browser: Browser, tmp_path: Path) -> None:
    other = Browser(tmp_path)
    try:
        browser.sign_in(browser.token)
        other.sign_in(other.token)
        assert browser.cookie.partition("=")[0] != other.cookie.partition("=")[0]
    finally:
        other.service.close()

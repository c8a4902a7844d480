"""Strangers, large bodies and paths that lead elsewhere: what does the service say?"""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from tests.unit.serving.stand_in import StandInJob

from cutwater.config import Control
from cutwater.serving.access import BODY_BYTES_MAX
from cutwater.serving.service import ControlService

pytestmark = pytest.mark.threads

TOKEN = "everything-is-allowed"
TOKEN_NEEDED = b'{"kind":"Refusal","fact":"a token is needed","detail":"","hint":""}'


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlService]:
    file = tmp_path_factory.mktemp("control") / "token"
    file.write_text(TOKEN)
    made = ControlService(StandInJob(), Control(token_file=str(file)))
    yield made
    made.close()


def answer_to(
    service: ControlService, method: str, path: str, headers: dict[str, str], body: bytes | None = None
) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(urlsplit(service.address).netloc, timeout=30)
    connection.request(method, path, body, headers)
    response = connection.getresponse()
    found = response.status, response.read()
    connection.close()
    return found


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "POST", "PUT", "DELETE", "PATCH", "TRACE", "BREW"])
@pytest.mark.parametrize(
    "path",
    [
        "/assets/page.css",
        "/jobs/orders",
        "/metrics",
        "/nowhere",
        "/jobs/../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "*",
    ],
)
def test_without_a_token_or_with_a_wrong_one_the_answer_is_401_and_nothing_else(
    service: ControlService, method: str, path: str
) -> None:
    wrong = [
        {},
        {"authorization": "Bearer "},
        {"authorization": "Bearer wrong"},
        {"authorization": f"Bearer {TOKEN[:-1]}"},
        {"authorization": f"Basic {TOKEN}"},
        {"authorization": TOKEN},
    ]
    answers = {answer_to(service, method, path, headers) for headers in wrong}
    assert answers == {(401, b"" if method == "HEAD" else TOKEN_NEEDED)}


def test_the_page_itself_is_a_form_to_sign_in_until_then_and_a_401_too(service: ControlService) -> None:
    status, body = answer_to(service, "GET", "/", {})
    assert (status, body[:15]) == (401, b"<!doctype html>")
    assert answer_to(service, "GET", "/", {"authorization": "Bearer wrong"}) == (401, TOKEN_NEEDED)


@pytest.mark.parametrize("path", ["/jobs/orders/../../../etc/passwd", "/..%2f..%2fetc/passwd", "/jobs/%2e%2e/jobs"])
def test_no_path_leads_to_a_file(service: ControlService, path: str) -> None:
    status, body = answer_to(service, "GET", path, {"authorization": f"Bearer {TOKEN}"})
    assert status == 404
    assert b"root:" not in body


def test_a_large_body_is_refused_before_it_was_sent(service: ControlService) -> None:
    """Ten megabytes are announced and a hundred bytes come: the answer doesn't wait for the rest."""
    parts = urlsplit(service.address)
    with socket.create_connection((parts.hostname, parts.port), timeout=30) as connection:
        connection.sendall(
            b"POST /jobs/orders/savepoints HTTP/1.1\r\nhost: here\r\ncontent-length: 10000000\r\n"
            b"authorization: Bearer " + TOKEN.encode() + b"\r\n\r\n" + b" " * 100
        )
        assert connection.recv(4096).startswith(b"HTTP/1.1 413 ")


def test_a_large_body_in_pieces_is_cut_off(service: ControlService) -> None:
    """Without a length beforehand: the rest of the ten megabytes is not read after 64 KiB."""
    parts = urlsplit(service.address)
    piece = b"2000\r\n" + b" " * 0x2000 + b"\r\n"
    with socket.create_connection((parts.hostname, parts.port), timeout=30) as connection:
        connection.sendall(
            b"POST /jobs/orders/savepoints HTTP/1.1\r\nhost: here\r\ntransfer-encoding: chunked\r\n"
            b"authorization: Bearer " + TOKEN.encode() + b"\r\n\r\n"
        )
        for _ in range(BODY_BYTES_MAX // 0x2000 + 1):
            connection.sendall(piece)
        assert connection.recv(4096).startswith(b"HTTP/1.1 413 ")
    headers = {"authorization": f"Bearer {TOKEN}"}
    assert answer_to(service, "GET", "/jobs/orders", headers)[0] == 200


def test_a_stranger_s_large_body_is_not_read_either(service: ControlService) -> None:
    parts = urlsplit(service.address)
    with socket.create_connection((parts.hostname, parts.port), timeout=30) as connection:
        connection.sendall(b"POST /jobs HTTP/1.1\r\nhost: here\r\ncontent-length: 10000000\r\n\r\n" + b" " * 100)
        assert connection.recv(4096).startswith(b"HTTP/1.1 401 ")

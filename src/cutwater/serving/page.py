"""What does a browser get of us? Files that are read once, before the first request: none of its paths is a file's."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from cutwater.serving.answering import Refusal

_KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_EVERYWHERE = {
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
_NO_OTHERS = "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
PAGE_POLICY = f"default-src 'self'; object-src 'none'; {_NO_OTHERS}"
_PAGE = "index.html"
_SIGN_IN = "sign_in.html"


@cache
def dashboard_files() -> Mapping[str, bytes]:
    """By name."""
    folder = files("cutwater.serving").joinpath("dashboard")
    return {each.name: each.read_bytes() for each in folder.iterdir() if _suffix(each.name) in _KINDS}


def page_routes() -> list[Route]:
    return [Route("/", _page, methods=["GET"]), Route("/assets/{name}", _asset, methods=["GET"])]


def sign_in_page() -> Response:
    """Stands alone: who is not signed in gets nothing else. Only its own style and script may run."""
    content = dashboard_files()[_SIGN_IN]
    allowed = {kind: _digest(content, kind) for kind in ("script", "style")}
    policy = (
        f"default-src 'none'; script-src '{allowed['script']}'; style-src '{allowed['style']}'; "
        f"img-src data:; connect-src 'self'; {_NO_OTHERS}"
    )
    headers = {**_EVERYWHERE, "content-security-policy": policy, "www-authenticate": "Bearer"}
    return Response(content, 401, headers, _KINDS[".html"])


async def _page(request: Request) -> Response:
    return _file(_PAGE)


async def _asset(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in dashboard_files() or name.endswith(".html"):
        raise Refusal(404, "there is nothing here")
    return _file(name)


def _file(name: str) -> Response:
    headers = {**_EVERYWHERE, "content-security-policy": PAGE_POLICY}
    return Response(dashboard_files()[name], 200, headers, _KINDS[_suffix(name)])


def _digest(page: bytes, element: str) -> str:
    found = re.search(rf"<{element}>(.*?)</{element}>".encode(), page, re.DOTALL)
    assert found is not None
    return "sha256-" + base64.b64encode(hashlib.sha256(found[1]).digest()).decode()


def _suffix(name: str) -> str:
    return name[name.rfind(".") :]

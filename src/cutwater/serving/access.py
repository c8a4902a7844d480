"""Who may ask, and how much may they say at once?"""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field
from enum import StrEnum

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from cutwater.serving.answering import Refusal, refuse

BODY_BYTES_MAX = 64 * 1024
_BEARER = "bearer "


class Access(StrEnum):
    READ = "read"
    CHANGE = "change"


@dataclass(frozen=True, slots=True)
class Tokens:
    """`change` allows everything, `read` only to look."""

    change: str = field(repr=False)
    read: str | None = field(default=None, repr=False)

    def access_of(self, given: str) -> Access | None:
        """None: nothing is allowed. Takes as long for a token that is nearly right as for any other."""
        may_change = _same(given, self.change)
        may_read = self.read is not None and _same(given, self.read)
        if may_change:
            return Access.CHANGE
        return Access.READ if may_read else None


class Guard:
    """Lets no request through without a token, to any path: strangers can't tell what exists."""

    def __init__(self, app: ASGIApp, tokens: Tokens) -> None:
        self._app = app
        self._tokens = tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        said = Request(scope).headers.get("authorization", "")
        given = said[len(_BEARER) :].strip() if said[: len(_BEARER)].lower() == _BEARER else ""
        access = self._tokens.access_of(given)
        if access is None:
            refusal = refuse(Refusal(401, "a token is needed"), headers={"www-authenticate": "Bearer"})
            await refusal(scope, receive, send)
            return
        scope["access"] = access
        await self._app(scope, receive, send)


async def body_of(request: Request) -> bytes:
    """Refuses what is too large, also when it doesn't say so beforehand."""
    pieces: list[bytes] = []
    size_bytes = 0
    said = request.headers.get("content-length", "")
    if said.isdigit() and int(said) > BODY_BYTES_MAX:
        raise _too_large()
    async for piece in request.stream():
        size_bytes += len(piece)
        if size_bytes > BODY_BYTES_MAX:
            raise _too_large()
        pieces.append(piece)
    return b"".join(pieces)


def _too_large() -> Refusal:
    return Refusal(413, "the body is too large", detail=f"at most {BODY_BYTES_MAX} bytes are read")


def _same(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode(), token.encode())

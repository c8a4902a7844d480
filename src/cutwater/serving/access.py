"""Who may ask, and how much may they say at once?"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from cutwater.serving.answering import Refusal, refuse
from cutwater.serving.pacing import Pace
from cutwater.serving.sessions import Sessions
from cutwater.serving.tokens import Access, Tokens

BODY_BYTES_MAX = 64 * 1024
_BEARER = "bearer "
#: A page of another site can send our cookie along, but not this header.
PAGE_HEADER = "x-cutwater"
SIGN_IN = ("POST", "/session")


class Guard:
    """Lets no request through without a token or a session, to any path: strangers can't tell what exists.

    A browser that opens the page without either gets the form to sign in, with a 401.
    """

    def __init__(self, app: ASGIApp, tokens: Tokens, sessions: Sessions, sign_in: Response, pace: Pace) -> None:
        self._app = app
        self._tokens = tokens
        self._sessions = sessions
        self._sign_in = sign_in
        self._pace = pace

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope)
        access = self._access_of(request)
        if access is not Access.CHANGE or not _changes(request):
            await self._pace.turn()
        if access is None:
            await self._answer_to_stranger(request)(scope, receive, send)
            return
        if "authorization" not in request.headers and _changes(request) and PAGE_HEADER not in request.headers:
            await refuse(Refusal(403, f"the header {PAGE_HEADER} is missing"))(scope, receive, send)
            return
        scope["access"] = access
        await self._app(scope, receive, send)

    def _access_of(self, request: Request) -> Access | None:
        """A token counts before a cookie: what is given must be right."""
        said = request.headers.get("authorization")
        if said is None:
            return self._sessions.access_of(request.cookies.get(cookie_name(request), ""))
        given = said[len(_BEARER) :].strip() if said[: len(_BEARER)].lower() == _BEARER else ""
        access = self._tokens.access_of(given)
        if access is None and (request.method, request.url.path) == SIGN_IN:
            return self._sessions.redeem(given)
        return access

    def _answer_to_stranger(self, request: Request) -> Response:
        if request.method == "GET" and request.url.path == "/" and "authorization" not in request.headers:
            return self._sign_in
        return refuse(Refusal(401, "a token is needed"), headers={"www-authenticate": "Bearer"})


def cookie_name(request: Request) -> str:
    """Browsers send the cookies of a host to all its ports: those of two jobs must not be the same."""
    port = (request.scope.get("server") or ("", 0))[1]
    return f"cutwater-session-{port}"


def _changes(request: Request) -> bool:
    return request.method not in ("GET", "HEAD")


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

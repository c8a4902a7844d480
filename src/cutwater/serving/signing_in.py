"""How does a browser get a session, and end it?"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from cutwater.serving import words
from cutwater.serving.access import cookie_name
from cutwater.serving.answering import Refusal, reply
from cutwater.serving.sessions import CODE_SECONDS, SESSION_SECONDS, Sessions

Handler = Callable[[Request], Awaitable[Response]]


def session_routes(sessions: Sessions) -> list[Route]:
    """The guard has found out already what the request may do."""
    return [
        Route("/session", _current, methods=["GET"]),
        Route("/session", _begin(sessions), methods=["POST"]),
        Route("/session", _end(sessions), methods=["DELETE"]),
        Route("/session/codes", _new_code(sessions), methods=["POST"]),
    ]


async def _current(request: Request) -> Response:
    return reply(words.Session(request.scope["access"].value))


def _begin(sessions: Sessions) -> Handler:
    async def begin(request: Request) -> Response:
        _check_token(request)
        answer = reply(words.Session(request.scope["access"].value))
        _set_cookie(answer, request, sessions.begin(request.scope["access"]), SESSION_SECONDS)
        return answer

    return begin


def _end(sessions: Sessions) -> Handler:
    async def end(request: Request) -> Response:
        sessions.end(request.cookies.get(cookie_name(request), ""))
        answer = reply(words.Done())
        _set_cookie(answer, request, "", 0.0)
        return answer

    return end


def _new_code(sessions: Sessions) -> Handler:
    async def new_code(request: Request) -> Response:
        _check_token(request)
        return reply(words.SessionCode(sessions.new_code(request.scope["access"]), CODE_SECONDS))

    return new_code


def _check_token(request: Request) -> None:
    """A session can't make others that outlive it."""
    if "authorization" not in request.headers:
        raise Refusal(403, "a token is needed for this, not a session")


def _set_cookie(answer: Response, request: Request, value: str, seconds: float) -> None:
    answer.set_cookie(
        cookie_name(request),
        value,
        max_age=int(seconds),
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )

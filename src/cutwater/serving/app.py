"""How does a request find its answer?"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from cutwater.serving import words
from cutwater.serving.access import Guard, body_of
from cutwater.serving.answering import Refusal, refuse, reply, text
from cutwater.serving.endpoints import ENDPOINTS, Endpoint, Query, Served
from cutwater.serving.listening import Listeners
from cutwater.serving.openapi import JOB, description
from cutwater.serving.page import page_routes, sign_in_page
from cutwater.serving.sessions import Sessions
from cutwater.serving.signing_in import session_routes
from cutwater.serving.tokens import Access, Tokens
from cutwater.telemetry.prometheus import CONTENT_TYPE, exposition

#: An open page is told of changes so often, at most.
EVENTS_PAUSE_SECONDS = 0.5
#: Nothing new: says that the connection lives.
KEEPALIVE_SECONDS = 15.0


def application(served: Served, tokens: Tokens) -> ASGIApp:
    """The whole service of one job."""
    sessions = Sessions()
    routes = [
        *page_routes(),
        *session_routes(sessions),
        Route("/openapi.json", _described, methods=["GET"]),
        Route("/metrics", _metrics(served), methods=["GET"]),
        Route("/jobs", _jobs(served), methods=["GET"]),
        Route(f"{JOB}/events", _events(served), methods=["GET"]),
        *(_route(path, served) for path in dict.fromkeys(each.path for each in ENDPOINTS)),
    ]
    handlers: dict[Any, Callable[..., Any]] = {Refusal: _refused, HTTPException: _not_found, Exception: _failed}
    app = Starlette(routes=routes, exception_handlers=handlers)
    return _counted(Guard(app, tokens, sessions, sign_in_page(), served.pace), served.listeners)


def _counted(app: ASGIApp, listeners: Listeners) -> ASGIApp:
    async def counted(scope: Scope, receive: Receive, send: Send) -> None:
        with listeners.one_more():
            await app(scope, receive, send)

    return counted


async def _described(request: Request) -> Response:
    return reply(description())


def _jobs(served: Served) -> Callable[[Request], Awaitable[Response]]:
    async def jobs(request: Request) -> Response:
        return reply(words.Jobs([words.summary_of(served.job.status())]))

    return jobs


def _metrics(served: Served) -> Callable[[Request], Awaitable[Response]]:
    async def metrics(request: Request) -> Response:
        return text(exposition(served.job.status()), CONTENT_TYPE)

    return metrics


def _route(path: str, served: Served) -> Route:
    """One for all methods of a path: so it can say which those are."""
    answers = {each.method: _answers(each, served) for each in ENDPOINTS if each.path == path}

    async def answer(request: Request) -> Response:
        return await answers["POST" if request.method == "POST" else "GET"](request)

    return Route(JOB + path, answer, methods=list(answers))


def _answers(endpoint: Endpoint, served: Served) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        _check_job(request, served)
        if endpoint.changes and request.scope["access"] is not Access.CHANGE:
            raise Refusal(403, "this token is for reading only")
        body = None if endpoint.body is None else _decoded(await body_of(request), endpoint.body)
        names = {**request.path_params, **{each.name: _asked(request, each) for each in endpoint.query}}
        return reply(endpoint.handle(served, names, body), endpoint.status)

    return answer


def _events(served: Served) -> Callable[[Request], Awaitable[Response]]:
    async def events(request: Request) -> Response:
        _check_job(request, served)
        return StreamingResponse(
            _statuses(served), headers={"cache-control": "no-store"}, media_type="text/event-stream"
        )

    return events


async def _statuses(served: Served) -> AsyncIterator[bytes]:
    """The job's status whenever it has changed, until its end."""
    told, silent_seconds = None, 0.0
    while True:
        status = served.job.status()
        if status is not told:
            told, silent_seconds = status, 0.0
            yield b"event: status\ndata: " + served.memory.encoded(status) + b"\n\n"
        elif silent_seconds >= KEEPALIVE_SECONDS:
            silent_seconds = 0.0
            yield b": still there\n\n"
        if status.state.terminal:
            return
        await asyncio.sleep(EVENTS_PAUSE_SECONDS)
        await served.pace.turn()
        silent_seconds += EVENTS_PAUSE_SECONDS


def _check_job(request: Request, served: Served) -> None:
    if request.path_params["job_id"] != served.job.job_id:
        raise Refusal(404, "there is no such job here")


def _decoded(body: bytes, kind: Any) -> Any:
    try:
        return msgspec.convert(_with_integers(msgspec.json.decode(body)), kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refusal(400, "the body can't be understood", detail=str(error)) from None


def _asked(request: Request, query: Query) -> Any:
    given = request.query_params.getlist(query.name)
    if not given:
        return query.default
    try:
        return msgspec.convert(given[-1], query.kind, strict=False)
    except msgspec.ValidationError as error:
        raise Refusal(400, f"the parameter {query.name!r} can't be understood", detail=str(error)) from None


def _with_integers(said: Any) -> Any:
    """To JSON, 4.0 is the integer 4; all bodies are flat."""
    if not isinstance(said, dict):
        return said
    return {name: int(one) if isinstance(one, float) and one.is_integer() else one for name, one in said.items()}


async def _refused(request: Request, refusal: Refusal) -> Response:
    return refuse(refusal)


async def _not_found(request: Request, error: HTTPException) -> Response:
    fact = "there is no such method here" if error.status_code == 405 else "there is nothing here"
    return refuse(Refusal(error.status_code, fact), error.headers)


async def _failed(request: Request, error: Exception) -> Response:
    """A fault of ours; what it was stands in the driver's log only."""
    return refuse(Refusal(500, "the service failed", hint="the driver's log says why"))

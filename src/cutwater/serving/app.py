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
from starlette.types import ASGIApp

from cutwater.serving import words
from cutwater.serving.access import Access, Guard, Tokens, body_of
from cutwater.serving.answering import Refusal, refuse, reply
from cutwater.serving.endpoints import ENDPOINTS, Endpoint, Served, summary_of
from cutwater.serving.openapi import JOB, description

#: An open page is told of changes so often, at most.
EVENTS_PAUSE_SECONDS = 0.5
#: Nothing new: says that the connection lives.
KEEPALIVE_SECONDS = 15.0


def application(served: Served, tokens: Tokens) -> ASGIApp:
    """The whole service of one job."""
    routes = [
        Route("/openapi.json", _described, methods=["GET"]),
        Route("/jobs", _jobs(served), methods=["GET"]),
        Route(f"{JOB}/events", _events(served), methods=["GET"]),
        *(Route(JOB + each.path, _answers(each, served), methods=[each.method]) for each in ENDPOINTS),
    ]
    handlers: dict[Any, Callable[..., Any]] = {Refusal: _refused, HTTPException: _not_found, Exception: _failed}
    return Guard(Starlette(routes=routes, exception_handlers=handlers), tokens)


async def _described(request: Request) -> Response:
    return reply(description())


def _jobs(served: Served) -> Callable[[Request], Awaitable[Response]]:
    async def jobs(request: Request) -> Response:
        return reply(words.Jobs([summary_of(served.job.status())]))

    return jobs


def _answers(endpoint: Endpoint, served: Served) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        _check_job(request, served)
        if endpoint.changes and request.scope["access"] is not Access.CHANGE:
            raise Refusal(403, "this token is for reading only")
        body = None if endpoint.body is None else _decoded(await body_of(request), endpoint.body)
        return reply(endpoint.handle(served, request.path_params, body), endpoint.status)

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
            yield b"event: status\ndata: " + msgspec.json.encode(status) + b"\n\n"
        elif silent_seconds >= KEEPALIVE_SECONDS:
            silent_seconds = 0.0
            yield b": still there\n\n"
        if status.state.terminal:
            return
        await asyncio.sleep(EVENTS_PAUSE_SECONDS)
        silent_seconds += EVENTS_PAUSE_SECONDS


def _check_job(request: Request, served: Served) -> None:
    if request.path_params["job_id"] != served.job.job_id:
        raise Refusal(404, "there is no such job here")


def _decoded(body: bytes, kind: Any) -> Any:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refusal(400, "the body can't be understood", detail=str(error)) from None


async def _refused(request: Request, refusal: Refusal) -> Response:
    return refuse(refusal)


async def _not_found(request: Request, error: HTTPException) -> Response:
    fact = "there is no such method here" if error.status_code == 405 else "there is nothing here"
    return refuse(Refusal(error.status_code, fact), error.headers)


async def _failed(request: Request, error: Exception) -> Response:
    """A fault of ours; what it was stands in the driver's log only."""
    return refuse(Refusal(500, "the service failed", hint="the driver's log says why"))

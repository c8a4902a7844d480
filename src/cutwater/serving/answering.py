"""What does an answer look like? JSON that no cache may keep; an error has a fact, a detail and a hint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.responses import Response

from cutwater.errors import CutwaterError
from cutwater.status import failure_of

_HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff"}


class Refusal(CutwaterError):
    """The request can't be answered as asked; `status` is HTTP's word for why."""

    def __init__(self, status: int, fact: str, *, detail: str = "", hint: str = "") -> None:
        super().__init__(fact, detail=detail, hint=hint)
        self.status = status


def reply(value: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, _HEADERS, "application/json")


def text(content: bytes, content_type: str) -> Response:
    return Response(content, 200, {**_HEADERS, "content-type": content_type})


def refuse(refusal: Refusal, headers: Mapping[str, str] | None = None) -> Response:
    return Response(
        msgspec.json.encode(failure_of(refusal)), refusal.status, {**_HEADERS, **(headers or {})}, "application/json"
    )

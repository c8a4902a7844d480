"""How is the control service described to tools? OpenAPI 3.1, made from the table of endpoints."""

from __future__ import annotations

import re
from typing import Any

import msgspec

import cutwater
from cutwater.serving import words
from cutwater.serving.endpoints import ENDPOINTS, Endpoint, Query
from cutwater.status import FailureStatus

JOB = "/jobs/{job_id}"
_PROBLEMS = {
    400: "the request can't be understood",
    401: "the token is missing or wrong",
    403: "the token is for reading only",
    404: "there is no such thing",
    405: "there is no such method",
    409: "the job can't do that now",
    413: "the body is too large",
    429: "too much is asked of the job already",
}
EVENTS = "The status each time it has changed: server-sent events named `status`, until the job ends."
_TEXT = {"type": "string"}


def description() -> dict[str, Any]:
    """The document at `/openapi.json`."""
    kinds = [words.Jobs, FailureStatus]
    for endpoint in ENDPOINTS:
        kinds += [kind for kind in (endpoint.answer, endpoint.body) if kind is not None]
    schemas, components = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    schema_of = dict(zip(map(str, kinds), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {
        "/jobs": {"get": _operation("The jobs of this driver.", schema_of[str(words.Jobs)], 200, "/jobs", None)},
        "/openapi.json": {"get": _operation("This document.", {"type": "object"}, 200, "/openapi.json", None)},
        "/metrics": {"get": _operation("What Prometheus reads.", _TEXT, 200, "/metrics", None, "text/plain")},
        f"{JOB}/events": {"get": _operation(EVENTS, _TEXT, 200, f"{JOB}/events", None, "text/event-stream")},
    }
    for endpoint in ENDPOINTS:
        path = JOB + endpoint.path
        paths.setdefault(path, {})[endpoint.method.lower()] = _described(endpoint, path, schema_of)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Cutwater", "version": cutwater.__version__},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def _described(endpoint: Endpoint, path: str, schema_of: dict[str, Any]) -> dict[str, Any]:
    body = None if endpoint.body is None else schema_of[str(endpoint.body)]
    found = _operation(endpoint.summary, schema_of[str(endpoint.answer)], endpoint.status, path, body)
    found["parameters"] += [_queried(query) for query in endpoint.query]
    return found


def _queried(query: Query) -> dict[str, Any]:
    schema = {**msgspec.json.schema(query.kind), "default": query.default}
    return {"name": query.name, "in": "query", "required": False, "description": query.summary, "schema": schema}


def _operation(
    summary: str, answer: Any, status: int, path: str, body: Any, content_type: str = "application/json"
) -> dict[str, Any]:
    problem = {"application/json": {"schema": {"$ref": "#/components/schemas/FailureStatus"}}}
    found: dict[str, Any] = {
        "summary": summary,
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in re.findall(r"{(\w+)}", path)
        ],
        "responses": {
            str(status): {"description": "as asked", "content": {content_type: {"schema": answer}}},
            **{str(code): {"description": text, "content": problem} for code, text in _PROBLEMS.items()},
        },
    }
    if body is not None:
        found["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    return found

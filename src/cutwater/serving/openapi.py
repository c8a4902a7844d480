"""How is the control service described to tools? OpenAPI 3.1, made from the table of endpoints."""

from __future__ import annotations

import re
from typing import Any

import msgspec

import cutwater
from cutwater.serving import words
from cutwater.serving.endpoints import ENDPOINTS, Endpoint
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


def description() -> dict[str, Any]:
    """The document at `/openapi.json`."""
    kinds = [words.Jobs, FailureStatus]
    for endpoint in ENDPOINTS:
        kinds += [kind for kind in (endpoint.answer, endpoint.body) if kind is not None]
    schemas, components = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    schema_of = dict(zip(map(str, kinds), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {
        "/jobs": {"get": _operation("The jobs of this driver.", schema_of[str(words.Jobs)], 200, "/jobs", None)}
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
    return _operation(endpoint.summary, schema_of[str(endpoint.answer)], endpoint.status, path, body)


def _operation(summary: str, answer: Any, status: int, path: str, body: Any) -> dict[str, Any]:
    problem = {"application/json": {"schema": {"$ref": "#/components/schemas/FailureStatus"}}}
    found: dict[str, Any] = {
        "summary": summary,
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in re.findall(r"{(\w+)}", path)
        ],
        "responses": {
            str(status): {"description": "as asked", "content": {"application/json": {"schema": answer}}},
            **{str(code): {"description": text, "content": problem} for code, text in _PROBLEMS.items()},
        },
    }
    if body is not None:
        found["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    return found

"""A stand-in for a schema registry: five of the calls of Confluent's registry, in memory.

| call | answer |
|---|---|
| GET /schemas/types | the kinds of schemas |
| GET /schemas/ids/{id} | `schema`, `schemaType` (left out for Avro), `references`; 404 with error_code 40403 |
| GET /subjects/{subject}/versions/{number or latest} | these, and `subject`, `version`, `id`; 404 with 40401 |
| POST /subjects/{subject}/versions | registers: `id`; 409 if readers of the schema can't read what older ones wrote |
| POST /subjects/{subject} | looks up: as above; 404 with 40403 |

Its one rule of compatibility: an Avro field that is added needs a default.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote


class StandIn:
    """What it knows."""

    def __init__(self) -> None:
        self.schemas: list[dict[str, Any]] = []
        #: By subject, ids in the order of their versions.
        self.subjects: dict[str, list[int]] = {}
        self.credentials: str | None = None
        #: Answers that fail before the next good one.
        self.failures = 0
        self.calls: list[str] = []
        self.address = ""

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        match method, [unquote(part) for part in path.strip("/").split("/")]:
            case "GET", ["schemas", "types"]:
                return 200, ["AVRO", "PROTOBUF"]
            case "GET", ["schemas", "ids", number]:
                known = int(number) <= len(self.schemas)
                return (200, self.schemas[int(number) - 1]) if known else _missing(40403, "Schema not found")
            case "GET", ["subjects", subject, "versions", version]:
                return self._version(subject, version)
            case "POST", ["subjects", subject, "versions"]:
                return self._register(subject, body)
            case "POST", ["subjects", subject]:
                ids = self.subjects.get(subject, [])
                found = [index for index, each in enumerate(ids) if self.schemas[each - 1] == body]
                return self._version(subject, str(found[0] + 1)) if found else _missing(40403, "Schema not found")
            case _:
                return _missing(404, "HTTP 404 Not Found")

    def _version(self, subject: str, version: str) -> tuple[int, Any]:
        ids = self.subjects.get(subject)
        if not ids:
            return _missing(40401, f"Subject '{subject}' not found.")
        number = len(ids) if version == "latest" else int(version)
        return 200, {**self.schemas[ids[number - 1] - 1], "subject": subject, "version": number, "id": ids[number - 1]}

    def _register(self, subject: str, body: dict[str, Any]) -> tuple[int, Any]:
        ids = self.subjects.setdefault(subject, [])
        if body not in self.schemas:
            if ids and not _can_read(body, self.schemas[ids[-1] - 1]):
                return 409, {"error_code": 409, "message": "Schema being registered is incompatible"}
            self.schemas.append(body)
        number = self.schemas.index(body) + 1
        if number not in ids:
            ids.append(number)
        return 200, {"id": number}


def _missing(code: int, message: str) -> tuple[int, Any]:
    return 404, {"error_code": code, "message": message}


def _can_read(new: dict[str, Any], old: dict[str, Any]) -> bool:
    if "schemaType" in new:
        return True
    before = {field["name"] for field in json.loads(old["schema"])["fields"]}
    return all(field["name"] in before or "default" in field for field in json.loads(new["schema"])["fields"])


@contextmanager
def stand_in_registry() -> Iterator[StandIn]:
    """Runs on a free port of the loopback interface."""
    known = StandIn()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer("GET", None)

        def do_POST(self) -> None:
            self._answer("POST", json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def _answer(self, method: str, body: Any) -> None:
            known.calls.append(f"{method} {self.path}")
            status, answer = known.answer(method, self.path, body)
            if known.credentials is not None and self.headers["Authorization"] != _basic(known.credentials):
                status, answer = 401, {"error_code": 401, "message": "Unauthorized"}
            if known.failures:
                known.failures -= 1
                status, answer = 503, {"error_code": 50302, "message": "no leader"}
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    known.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield known
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _basic(credentials: str) -> str:
    return f"Basic {base64.b64encode(credentials.encode()).decode()}"

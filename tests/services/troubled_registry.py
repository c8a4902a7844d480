"""What can a real schema registry not be made to do when a test needs it?

To fail so many times, or to ask for a password. So something stands in front of it that does: all else passes through.
"""

from __future__ import annotations

import base64
import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from servers.registry import SchemaRegistry


class TroubledRegistry:
    def __init__(self, url: str) -> None:
        self.url = url
        #: Calls that fail before the next one that passes.
        self.failures = 0
        #: `user:password`, if it asks for them.
        self.credentials: str | None = None
        #: The paths of all calls.
        self.calls: list[str] = []

    def trouble(self, authorization: str | None) -> tuple[int, dict[str, Any]] | None:
        """None: the call passes."""
        if self.failures:
            self.failures -= 1
            return 503, {"error_code": 50302, "message": "no leader"}
        if self.credentials is not None and authorization != _basic(self.credentials):
            return 401, {"error_code": 401, "message": "Unauthorized"}
        return None


@contextmanager
def in_front_of(registry: SchemaRegistry) -> Iterator[TroubledRegistry]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def _answer(self) -> None:
            troubled.calls.append(self.path)
            trouble = troubled.trouble(self.headers["Authorization"])
            body = self.rfile.read(int(self.headers["Content-Length"] or 0))
            status, answer = self._ask(body) if trouble is None else (trouble[0], json.dumps(trouble[1]).encode())
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def _ask(self, body: bytes) -> tuple[int, bytes]:
            connection = http.client.HTTPConnection(registry.address, timeout=30)
            connection.request(self.command, self.path, body, {"Content-Type": self.headers["Content-Type"]})
            response = connection.getresponse()
            answer = response.read()
            connection.close()
            return response.status, answer

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    troubled = TroubledRegistry(f"http://127.0.0.1:{server.server_port}{urlsplit(registry.url).path}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield troubled
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _basic(credentials: str) -> str:
    return f"Basic {base64.b64encode(credentials.encode()).decode()}"

"""A small HTTP server whose responses never end, in a process of its own that can be killed.

    python firehose.py PORT LOG

`/events` sends the numbers from 0 on as server-sent events, each with its id, and goes on behind Last-Event-ID;
`/restless` does the same and breaks off after 1,000. `/lines` sends lines of JSON, and ends after 5,000. `/nothing`
answers 204, `/forbidden` 403, `/moved` redirects to `/events`, `/busy` answers 503. Requests are written to LOG.
"""

from __future__ import annotations

import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

COUNT = 100_000
LINES = 5_000
PART = 100


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        last_id = self.headers.get("Last-Event-ID", "")
        with Path(sys.argv[2]).open("a") as log:
            print(self.path, last_id, time.monotonic(), file=log)
        match self.path.partition("?")[0]:
            case "/events":
                self._events(int(last_id or -1) + 1, COUNT)
                time.sleep(600)
            case "/restless":
                begin = int(last_id or -1) + 1
                self._events(begin, begin + 1_000, prefix=b"retry: 300\n\n")
                self.close_connection = True
            case "/unnamed":
                self._begin("text/event-stream")
                self._chunk(b"id: 7\ndata: 1\n\ndata: 2\n\n")
                time.sleep(600)
            case "/lines":
                self._begin("application/x-ndjson")
                for begin in range(0, LINES, PART):
                    self._chunk(b"".join(b'{"n":%d}\n\n' % n for n in range(begin, begin + PART)))
                self._chunk(b"")
            case "/poison":
                self._begin("application/x-ndjson")
                self._chunk(b'{"n":1}\n{"n":\n')
                time.sleep(600)
            case "/moved":
                self._short(307, "Location", "/events")
            case "/nothing":
                self._short(204)
            case "/forbidden":
                self._short(403)
            case "/busy":
                self._short(503, "Retry-After", "1")
            case _:
                self._short(404)

    def _events(self, begin: int, end: int, prefix: bytes = b": hello\n\n") -> None:
        self._begin("text/event-stream")
        self._chunk(prefix)
        for at in range(begin, end, PART):
            numbers = range(at, min(at + PART, end))
            self._chunk(b"".join(b"id: %d\ndata: %d\n\n" % (n, n) for n in numbers))

    def _begin(self, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def _short(self, status: int, header: str | None = None, value: str = "") -> None:
        self.send_response(status)
        if header is not None:
            self.send_header(header, value)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()

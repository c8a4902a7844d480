"""Asks a web service about every payment, a hundred at a time.

The service is a small one of this file's own; it takes 20 ms for an answer and is now and then too busy to give one.
Payments that wait for their answer are part of every snapshot: after a failure they are asked about again, and still
come out once.

Run it: `cutwater run examples/enrich_over_http.py`.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any

import cutwater as cw

ANSWER_SECONDS = 0.02
BUSY_EVERY = 50


class Busy(Exception):
    """The service says: try again."""


class VatOf:
    """Adds the value-added tax of its country to a payment."""

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port

    async def process(self, payment: dict[str, Any]) -> dict[str, Any]:
        vat_percent = (await self._get(f"/countries/{payment['country']}"))["vat_percent"]
        return {**payment, "vat_percent": vat_percent, "vat_cents": payment["cents"] * vat_percent // 100}

    async def _get(self, path: str) -> Any:
        """A real job would use aiohttp or httpx, with a session that `open` makes and `close` closes."""
        reader, writer = await asyncio.open_connection(self._host, self._port)
        try:
            writer.write(f"GET {path} HTTP/1.0\r\n\r\n".encode())
            head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        finally:
            writer.close()
        if b" 200 " not in head.splitlines()[0]:
            raise Busy(head.splitlines()[0].decode())
        return json.loads(body)


def build(
    env: cw.Environment, input_folder: Path, output_folder: Path, *, service: tuple[str, int] | None = None
) -> None:
    host, port = service or start_service()
    payments = env.from_source(cw.sources.files(input_folder / "payments", format="json"), uid="payments")
    (
        payments.async_map(
            VatOf(host, port),
            capacity=100,
            timeout="10s",
            ordered=False,
            retry=cw.retry.exponential(attempts=5, delay="50ms", on=(Busy, OSError, TimeoutError)),
            uid="vat",
        ).sink_to(cw.sinks.json_lines(output_folder), uid="out")
    )


# The service.


class Countries(BaseHTTPRequestHandler):
    """GET /countries/CH → {"vat_percent": 8}."""

    _requests = count(1)

    def do_GET(self) -> None:
        from data import VAT_PERCENT

        time.sleep(ANSWER_SECONDS)
        vat_percent = VAT_PERCENT.get(self.path.rpartition("/")[2])
        if next(self._requests) % BUSY_EVERY == 0:
            self.send_error(503, "too busy")
        elif vat_percent is None:
            self.send_error(404, "no such country")
        else:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"vat_percent": vat_percent}).encode())

    def log_message(self, *_: Any) -> None:
        """Says nothing."""


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256


def start_service() -> tuple[str, int]:
    """On a free port of this machine, until the program ends."""
    server = Server(("127.0.0.1", 0), Countries)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return "127.0.0.1", server.server_port


if __name__ == "__main__":
    from data import workspace, write_payments_and_rules

    folders = workspace("enrich-over-http", write_payments_and_rules)
    env = cw.Environment(parallelism=2, checkpoints=cw.Checkpoints(every="500ms", storage=folders.checkpoints))
    build(env, folders.input, folders.output)
    env.execute("enrich over http", require="exactly_once")
    print(f"the payments with their tax are in {folders.output}")

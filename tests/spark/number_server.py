"""A server to be killed: it keeps numbers in a file, and answers each line with a line.

`["append", [1, 2]]`: answered when the file has the numbers. `["read", position, limit]`: answered with numbers from
there on. A process of its own, which starts quickly: it imports nothing of Cutwater.
"""

from __future__ import annotations

import json
import socketserver
import sys
from pathlib import Path
from typing import Any, BinaryIO

HOST = "127.0.0.1"


class _Handler(socketserver.StreamRequestHandler):
    numbers: list[int]
    file: BinaryIO

    def handle(self) -> None:
        for line in self.rfile:
            match json.loads(line):
                case ["append", numbers]:
                    self.file.write("".join(f"{number}\n" for number in numbers).encode())
                    answer: Any = "ok"
                case ["read", position, limit]:
                    answer = self.numbers[position : position + limit]
            self.wfile.write(json.dumps(answer).encode() + b"\n")


def serve(path: Path, port: int) -> None:
    _Handler.numbers = [int(line) for line in path.read_text().splitlines()]
    socketserver.ThreadingTCPServer.allow_reuse_address = True
    socketserver.ThreadingTCPServer.daemon_threads = True
    with path.open("ab", buffering=0) as _Handler.file:
        socketserver.ThreadingTCPServer((HOST, port), _Handler).serve_forever()


if __name__ == "__main__":
    serve(Path(sys.argv[1]), int(sys.argv[2]))

"""How does Redis start so that what it has acknowledged survives a kill?"""

from __future__ import annotations

import socket
from collections.abc import Sequence

from servers.packages import Debian, program
from servers.process import HOST, Command, Server


class Redis(Server):
    name = "redis"
    packages = (Debian("redis-server", "redis-server"),)

    @property
    def how_to_connect(self) -> str:
        return f"redis://{self.address}"

    def commands(self) -> Sequence[Command]:
        settings = {
            "bind": HOST,
            "port": str(self.port),
            "dir": str(self.folder),
            "save": "",
            "appendonly": "yes",
            "appendfsync": "always",
            "daemonize": "no",
        }
        options = [word for name, value in settings.items() for word in (f"--{name}", value)]
        return [Command([program("redis-server"), *options])]

    def is_ready(self) -> bool:
        """It accepts connections before it has read its data, and says so then."""
        with socket.create_connection((HOST, self.port), timeout=1) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(100) == b"+PONG\r\n"

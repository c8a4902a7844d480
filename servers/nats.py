"""How does NATS start with JetStream, so that it keeps messages?"""

from __future__ import annotations

from collections.abc import Sequence

from servers.packages import Debian, program
from servers.process import HOST, Command, Server


class Nats(Server):
    name = "nats"
    packages = (Debian("nats-server", "nats-server"),)

    @property
    def how_to_connect(self) -> str:
        return self.url

    @property
    def url(self) -> str:
        return f"nats://{self.address}"

    def commands(self) -> Sequence[Command]:
        storage = self.folder / "data"
        return [Command([program("nats-server"), "-a", HOST, "-p", str(self.port), "-js", "-sd", storage])]

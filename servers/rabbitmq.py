"""How does RabbitMQ start on its own, with everything below one folder?

Erlang's nodes find each other through a small server, epmd. RabbitMQ would start one that listens everywhere and
outlives it, so we start our own first.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence

from servers.packages import Debian, program
from servers.process import HOST, Command, Server, free_port

#: Debian's wrapper on the PATH wants to be root or the user rabbitmq; this is the program itself.
SERVER = "/usr/lib/rabbitmq/bin/rabbitmq-server"
CONTROL = "/usr/lib/rabbitmq/bin/rabbitmqctl"
#: Who leads the streams of this server; declared with the first one.
STREAMS = "rabbit_stream_coordinator"


class RabbitMQ(Server):
    name = "rabbitmq"
    packages = (Debian("rabbitmq-server", SERVER), Debian("erlang-base", "epmd"))

    user = "guest"
    password = "guest"

    def __init__(self) -> None:
        super().__init__()
        self.epmd_port = free_port()
        self.distribution_port = free_port()

    @property
    def how_to_connect(self) -> str:
        return self.url

    @property
    def url(self) -> str:
        return f"amqp://{self.user}:{self.password}@{self.address}/%2F"

    def write_queues_to_disk(self) -> None:
        """Blocks until the queues that were declared survive a kill; for their leaders see `has_leader_on_disk`.

        RabbitMQ confirms that a queue was declared, and writes it to disk later: first to a log, from there to a table.
        After a kill in between, the queue may be unknown. Messages are different: what is confirmed is on disk.
        """
        self.run_once(Command([program(CONTROL), "eval", "dumped = mnesia:dump_log()."], self._environment()))

    def has_leader_on_disk(self, queue: str, *, kind: str) -> bool:
        """Will this queue have a leader again after a kill? Written up to a second after it was declared."""
        leader = STREAMS if kind == "stream" else queue
        files = (self.folder / "data").rglob("names.dets")
        return kind == "classic" or any(leader.encode() in file.read_bytes() for file in files)

    def prepare(self) -> None:
        (self.folder / "rabbitmq.conf").write_text(
            f"listeners.tcp.1 = {HOST}:{self.port}\n"
            "log.console.level = info\n"
            # It refuses messages when less is free than this; the default is meant for a machine of its own.
            "disk_free_limit.absolute = 50MB\n"
        )
        (self.folder / "enabled_plugins").write_text("[].\n")

    def commands(self) -> Sequence[Command]:
        environment = self._environment()
        return [
            Command([program("epmd"), "-address", HOST, "-port", str(self.epmd_port)], environment),
            Command([program(SERVER)], environment),
        ]

    def is_ready(self) -> bool:
        """It answers a client's first bytes with a frame of the first channel."""
        with socket.create_connection((HOST, self.port), timeout=2) as connection:
            connection.sendall(b"AMQP\x00\x00\x09\x01")
            return connection.recv(3) == b"\x01\x00\x00"

    def _environment(self) -> dict[str, str]:
        return {
            "HOME": str(self.folder),
            "RABBITMQ_NODENAME": "cutwater@localhost",
            "RABBITMQ_CONFIG_FILE": str(self.folder / "rabbitmq.conf"),
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "enabled_plugins"),
            "RABBITMQ_GENERATED_CONFIG_DIR": str(self.folder / "generated"),
            "RABBITMQ_MNESIA_BASE": str(self.folder / "data"),
            "RABBITMQ_PID_FILE": str(self.folder / "pid"),
            "RABBITMQ_LOG_BASE": str(self.folder / "logs"),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_DIST_PORT": str(self.distribution_port),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
            "ERL_EPMD_ADDRESS": HOST,
            "ERL_EPMD_PORT": str(self.epmd_port),
        }

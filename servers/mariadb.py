"""How does MariaDB start, with a user and a password?

XA transactions, MariaDB's two-phase commit, need no setting.
"""

from __future__ import annotations

import getpass
import socket
from collections.abc import Sequence

from servers.packages import Debian, program
from servers.process import HOST, Command, Server


class MariaDB(Server):
    name = "mariadb"
    packages = (Debian("mariadb-server", "mariadbd"),)

    user = "cutwater"
    password = "cutwater-password"
    database = "cutwater"

    @property
    def how_to_connect(self) -> str:
        return f"mysql://{self.user}:{self.password}@{self.address}/{self.database}"

    def prepare(self) -> None:
        (self.folder / "users.sql").write_text(
            f"CREATE DATABASE IF NOT EXISTS {self.database};\n"
            f"CREATE USER IF NOT EXISTS {self.user}@'{HOST}' IDENTIFIED BY '{self.password}';\n"
            f"GRANT ALL ON *.* TO {self.user}@'{HOST}';\n"
        )
        make = ["mariadb-install-db", "--no-defaults", *self._where(), "--skip-test-db", "--skip-name-resolve"]
        self.run_once(Command([program(make[0]), *make[1:]]))

    def commands(self) -> Sequence[Command]:
        options = [
            f"--bind-address={HOST}",
            f"--port={self.port}",
            f"--socket={self.folder / 'socket'}",
            f"--pid-file={self.folder / 'pid'}",
            f"--init-file={self.folder / 'users.sql'}",
            "--skip-name-resolve",
        ]
        return [Command([program("mariadbd"), "--no-defaults", *self._where(), *options])]

    def is_ready(self) -> bool:
        """It greets first, with the version of its protocol."""
        with socket.create_connection((HOST, self.port), timeout=1) as connection:
            greeting = connection.recv(5)
            return greeting[4:] == b"\x0a"

    def _where(self) -> list[str]:
        # It drops root unless it is told whom to run as.
        return [f"--datadir={self.folder / 'data'}", f"--user={getpass.getuser()}"]

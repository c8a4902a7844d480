"""How does PostgreSQL start with two-phase commit, logical decoding and a password?"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from servers.packages import Debian, program
from servers.process import HOST, Command, Server, belongs_to

#: It refuses to run as root; Debian's package makes this user.
SYSTEM_USER = "postgres"


class Postgres(Server):
    name = "postgres"
    packages = (Debian("postgresql", "initdb"),)

    user = "cutwater"
    password = "cutwater-password"
    database = "postgres"

    @property
    def how_to_connect(self) -> str:
        return self.url

    @property
    def url(self) -> str:
        return f"postgresql://{self.user}:{self.password}@{self.address}/{self.database}"

    def prepare(self) -> None:
        belongs_to(SYSTEM_USER, self.folder)
        password = self.folder / "password.txt"
        password.write_text(self.password)
        self.run_once(
            self._command(
                "initdb",
                f"--pgdata={self.folder / 'data'}",
                f"--username={self.user}",
                f"--pwfile={password}",
                "--auth=scram-sha-256",
                "--encoding=UTF8",
                "--no-sync",
            )
        )

    def commands(self) -> Sequence[Command]:
        settings = {
            "listen_addresses": HOST,
            "port": str(self.port),
            "unix_socket_directories": str(self.folder),
            "max_prepared_transactions": "64",
            "max_connections": "128",
            "wal_level": "logical",
            # A killed server loses nothing by it: what it has written is in the operating system's cache.
            "fsync": "off",
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        return [self._command("postgres", "-D", str(self.folder / "data"), *options)]

    def is_ready(self) -> bool:
        question = [program("pg_isready"), "-q", "-t", "2", "-h", HOST, "-p", str(self.port)]
        return subprocess.run(question, check=False).returncode == 0

    def _command(self, name: str, *arguments: str) -> Command:
        return Command([program(name), *arguments], environment={"LC_ALL": "C.UTF-8"}, user=SYSTEM_USER)

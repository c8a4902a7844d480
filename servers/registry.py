"""How does a schema registry start?

Apicurio Registry, from Maven Central. It understands the calls of Confluent's registry below a path of its own. Schemas
lie in an H2 database, in a file.
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Sequence
from urllib.parse import quote

from servers.packages import Java, MavenArchive, java
from servers.process import HOST, Command, Server

# The last line that runs on Java 17.
VERSION = "2.6.13.Final"
APICURIO = MavenArchive(f"apicurio-registry-{VERSION}", f"io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all")


class SchemaRegistry(Server):
    name = "registry"
    packages = (Java(), APICURIO)

    @property
    def how_to_connect(self) -> str:
        return self.url

    @property
    def url(self) -> str:
        return f"http://{self.address}/apis/ccompat/v7"

    def demand_compatibility(self, subject: str, rule: str) -> None:
        """From now on, for example `BACKWARD`: by default, each schema is accepted."""
        body = json.dumps({"compatibility": rule}).encode()
        headers = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
        call = urllib.request.Request(f"{self.url}/config/{quote(subject, safe='')}", body, headers, method="PUT")
        urllib.request.urlopen(call, timeout=30).close()

    def is_ready(self) -> bool:
        urllib.request.urlopen(f"{self.url}/schemas/types", timeout=5).close()
        return True

    def commands(self) -> Sequence[Command]:
        options = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.net.preferIPv4Stack=true"]
        settings = {
            # A killed one would leave files behind in the folder that all share.
            "java.io.tmpdir": str(self.folder),
            "quarkus.http.host": HOST,
            "quarkus.http.port": str(self.port),
            # What it has acknowledged is in the file; H2 would wait for half a second.
            "quarkus.datasource.jdbc.url": f"jdbc:h2:file:{self.folder / 'schemas'};WRITE_DELAY=0",
            "quarkus.datasource.jdbc.initial-size": "2",
            "quarkus.datasource.jdbc.min-size": "2",
            # By default 5 s: too short for a busy machine.
            "quarkus.datasource.jdbc.acquisition-timeout": "120S",
            # Its transactions would open a second port, only to have a number that no other process has.
            "CoreEnvironmentBean.processImplementationClassName": "com.arjuna.ats.internal.arjuna.utils.UuidProcessId",
        }
        given = [f"-D{name}={value}" for name, value in settings.items()]
        program = APICURIO.folder / f"apicurio-registry-app-{VERSION}-runner.jar"
        return [Command([java(), *options, *given, "-jar", program])]

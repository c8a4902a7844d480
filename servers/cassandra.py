"""How does one node of Apache Cassandra start by itself, and soon?

Its jars come from Maven Central; the configuration files, which are not among them, are written here.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from servers.packages import Java, Maven, java
from servers.process import HOST, Command, Server, free_port

JARS = Maven("cassandra-5.0.5", ("org.apache.cassandra:cassandra-all:5.0.5",))
#: What Cassandra reaches into, below Java's own interfaces.
OPENED = (
    "java.base/java.io",
    "java.base/java.lang",
    "java.base/java.lang.module",
    "java.base/java.lang.reflect",
    "java.base/java.math",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.loader",
    "java.base/jdk.internal.math",
    "java.base/jdk.internal.misc",
    "java.base/jdk.internal.module",
    "java.base/jdk.internal.ref",
    "java.base/jdk.internal.reflect",
    "java.base/jdk.internal.util.jar",
    "java.base/sun.nio.ch",
    "java.management.rmi/com.sun.jmx.remote.internal.rmi",
    "java.management/com.sun.jmx.mbeanserver",
    "java.rmi/sun.rmi.registry",
    "java.rmi/sun.rmi.server",
    "java.rmi/sun.rmi.transport.tcp",
    "java.sql/java.sql",
    "jdk.management/com.sun.management.internal",
)
LOGGING = """\
<configuration>
  <appender name="out" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d{HH:mm:ss.SSS} %level %logger{0}: %msg%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="out"/></root>
</configuration>
"""


class Cassandra(Server):
    name = "cassandra"
    packages = (Java(), JARS)
    ready_within_seconds = 120.0

    def __init__(self) -> None:
        super().__init__()
        self.storage_port = free_port()
        self.encrypted_storage_port = free_port()

    @property
    def how_to_connect(self) -> str:
        return f"{self.address}, without a password"

    def prepare(self) -> None:
        # YAML reads JSON.
        (self.folder / "cassandra.yaml").write_text(json.dumps(self._settings(), indent=2))
        (self.folder / "logback.xml").write_text(LOGGING)

    def commands(self) -> Sequence[Command]:
        agent = next(JARS.folder.glob("jamm-*.jar"))
        options = [
            "-Xmx512m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-Djava.net.preferIPv4Stack=true",
            f"-javaagent:{agent}",
            "-Djdk.attach.allowAttachSelf=true",
            "--add-modules=jdk.internal.vm.compiler",
            *(f"{option}={package}=ALL-UNNAMED" for package in OPENED for option in ("--add-opens", "--add-exports")),
            f"-Dcassandra.config=file://{self.folder / 'cassandra.yaml'}",
            f"-Dcassandra.storagedir={self.folder}",
            f"-Dcassandra.logdir={self.folder / 'logs'}",
            "-Dcassandra-foreground=yes",
            # There is no other node to wait for.
            "-Dcassandra.skip_wait_for_gossip_to_settle=0",
            "-Dcassandra.ring_delay_ms=0",
            "-Dcassandra.superuser_setup_delay_ms=0",
        ]
        daemon = "org.apache.cassandra.service.CassandraDaemon"
        return [Command([java(), *options, "-cp", f"{self.folder}:{JARS.folder}/*", daemon])]

    def _settings(self) -> dict[str, object]:
        folders = {
            "commitlog_directory": str(self.folder / "commits"),
            "data_file_directories": [str(self.folder / "data")],
            "hints_directory": str(self.folder / "hints"),
            "saved_caches_directory": str(self.folder / "caches"),
            "cdc_raw_directory": str(self.folder / "changes"),
        }
        seeds = [{"seeds": f"{HOST}:{self.storage_port}"}]
        return {
            **folders,
            "cluster_name": "cutwater",
            "partitioner": "org.apache.cassandra.dht.Murmur3Partitioner",
            "num_tokens": 1,
            "endpoint_snitch": "SimpleSnitch",
            "auto_bootstrap": False,
            "seed_provider": [{"class_name": "org.apache.cassandra.locator.SimpleSeedProvider", "parameters": seeds}],
            "listen_address": HOST,
            "rpc_address": HOST,
            "native_transport_port": self.port,
            "storage_port": self.storage_port,
            "ssl_storage_port": self.encrypted_storage_port,
            # What it has acknowledged is on disk.
            "commitlog_sync": "batch",
            "commitlog_disk_access_mode": "legacy",
            "disk_access_mode": "mmap_index_only",
        }

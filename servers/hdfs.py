"""How does HDFS start with one name node and one data node?

Its jars come from Maven Central. Both nodes are one server here: they are killed and paused together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from servers.packages import Java, Maven, java
from servers.process import HOST, Command, Server, free_port

JARS = Maven(
    "hadoop-3.4.1",
    (
        "org.apache.hadoop:hadoop-common:3.4.1",
        "org.apache.hadoop:hadoop-hdfs:3.4.1",
        "org.apache.hadoop:hadoop-hdfs-client:3.4.1",
        # Maven would choose an older one, which does not fit to the rest of Jackson.
        "com.fasterxml.jackson.core:jackson-core:2.12.7",
    ),
)
LOGGING = """\
log4j.rootLogger=INFO,out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d{HH:mm:ss.SSS} %p %c{1}: %m%n
"""
NAME_NODE = "org.apache.hadoop.hdfs.server.namenode.NameNode"
DATA_NODE = "org.apache.hadoop.hdfs.server.datanode.DataNode"


class Hdfs(Server):
    name = "hdfs"
    packages = (Java(), JARS)
    ready_within_seconds = 240.0

    def __init__(self) -> None:
        super().__init__()
        self.ports = {name: free_port() for name in ("name-http", "data", "data-http", "data-ipc")}

    @property
    def how_to_connect(self) -> str:
        return self.url

    @property
    def url(self) -> str:
        return f"hdfs://{self.address}"

    def prepare(self) -> None:
        (self.folder / "core-site.xml").write_text(_configuration({"fs.defaultFS": self.url}))
        (self.folder / "hdfs-site.xml").write_text(_configuration(self._settings()))
        (self.folder / "log4j.properties").write_text(LOGGING)
        # The pages that it would show to people are not in the jars, but it wants to find their folders.
        for pages in ("hdfs", "datanode", "static"):
            folder = self.folder / "webapps" / pages / "WEB-INF"
            folder.mkdir(parents=True)
            (folder / "web.xml").write_text("<web-app/>")
        self.run_once(self._java(NAME_NODE, "-format", "-nonInteractive"))

    def commands(self) -> Sequence[Command]:
        return [self._java(DATA_NODE), self._java(NAME_NODE)]

    def is_ready(self) -> bool:
        """It answers, it may be written to, and it knows its data node."""
        log = self.log_of_this_start()
        return "registerDatanode" in log and ("Safe mode is OFF" in log or "Leaving safe mode" in log)

    def _java(self, *arguments: str) -> Command:
        options = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.net.preferIPv4Stack=true"]
        return Command([java(), *options, "-cp", f"{self.folder}:{JARS.folder}/*", *arguments])

    def _settings(self) -> Mapping[str, str]:
        def at(name: str) -> str:
            return f"{HOST}:{self.ports[name]}"

        return {
            "dfs.replication": "1",
            "dfs.namenode.name.dir": f"file://{self.folder}/names",
            "dfs.datanode.data.dir": f"file://{self.folder}/data",
            "dfs.namenode.rpc-bind-host": HOST,
            "dfs.namenode.http-address": at("name-http"),
            "dfs.datanode.address": at("data"),
            "dfs.datanode.http.address": at("data-http"),
            "dfs.datanode.ipc.address": at("data-ipc"),
            "dfs.datanode.hostname": HOST,
            "dfs.permissions.enabled": "false",
            # Killed nodes are back soon: nobody waits for others that might report.
            "dfs.namenode.safemode.extension": "0",
            "dfs.heartbeat.interval": "1",
        }


def _configuration(settings: Mapping[str, str]) -> str:
    properties = (f"<property><name>{name}</name><value>{value}</value></property>" for name, value in settings.items())
    return f"<configuration>{''.join(properties)}</configuration>\n"

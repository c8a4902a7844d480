"""How does an Apache Kafka broker start alone, with transactions?

In KRaft mode: one process is broker and controller. Its jars come from Maven Central.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from servers.packages import Java, Maven, java
from servers.process import HOST, Command, Server, free_port

JARS = Maven(
    "kafka-4.3.0",
    ("org.apache.kafka:kafka_2.13:4.3.0", "org.apache.logging.log4j:log4j-slf4j-impl:2.24.3"),
)
CLUSTER = "Y3V0d2F0ZXItdGVzdHMtMQ"
LOGGING = """\
status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{HH:mm:ss.SSS} %p %c{1}: %m%n
rootLogger.level = info
rootLogger.appenderRef.out.ref = out
"""


class Kafka(Server):
    """With `users`, `sasl_address` is a second listener that wants one of these names and passwords (SASL/PLAIN).

    `settings` are more lines for the broker's server.properties. `optimised` is for benchmarks: Java compiles as well
    as it can, but the broker takes longer to start.
    """

    name = "kafka"
    packages = (Java(), JARS)

    def __init__(
        self,
        *,
        users: Mapping[str, str] | None = None,
        settings: Mapping[str, str] | None = None,
        optimised: bool = False,
    ) -> None:
        super().__init__()
        self.optimised = optimised
        self.users = dict(users or {})
        self.settings = dict(settings or {})
        self.controller_port = free_port()
        self.sasl_port = free_port()

    @property
    def bootstrap_servers(self) -> str:
        return self.address

    @property
    def sasl_address(self) -> str:
        assert self.users, "this broker has no users"
        return f"{HOST}:{self.sasl_port}"

    @property
    def how_to_connect(self) -> str:
        with_password = f"; with a password: {self.sasl_address}" if self.users else ""
        return f"bootstrap.servers={self.bootstrap_servers}{with_password}"

    def create_topic(self, name: str, *, partitions: int = 1) -> None:
        """Returns when clients can use it. A broker that lacks the processor's time may be fenced for a while."""
        from confluent_kafka import KafkaError, KafkaException
        from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers})
        topic = NewTopic(name, num_partitions=partitions, replication_factor=1)
        deadline = time.monotonic() + self.ready_within_seconds
        seemed_to_fail = False
        while True:
            try:
                admin.create_topics([topic])[name].result(30)
                return
            except (KafkaException, TimeoutError) as error:
                code = KafkaError._TIMED_OUT if isinstance(error, TimeoutError) else error.args[0].code()
                if code == KafkaError.TOPIC_ALREADY_EXISTS and seemed_to_fail:
                    return
                if (
                    code not in (KafkaError.INVALID_REPLICATION_FACTOR, KafkaError._TIMED_OUT)
                    or time.monotonic() > deadline
                ):
                    raise
            seemed_to_fail = True
            time.sleep(0.1)

    def prepare(self) -> None:
        lines = [f"{name}={value}" for name, value in {**self._settings(), **self.settings}.items()]
        (self.folder / "server.properties").write_text("\n".join(lines) + "\n")
        (self.folder / "log4j2.properties").write_text(LOGGING)
        self.run_once(
            self._java("kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", str(self.folder / "server.properties"))
        )

    def commands(self) -> Sequence[Command]:
        return [self._java("kafka.Kafka", str(self.folder / "server.properties"))]

    def is_ready(self) -> bool:
        """The ports are open before it may lead partitions, so they say too little."""
        return "Kafka Server started" in self.log_of_this_start()

    def _java(self, *arguments: str) -> Command:
        options = [
            "-Xmx512m",
            "-XX:+UseSerialGC",
            *([] if self.optimised else ["-XX:TieredStopAtLevel=1"]),
            "-Djava.net.preferIPv4Stack=true",
            f"-Dlog4j2.configurationFile={self.folder / 'log4j2.properties'}",
        ]
        return Command([java(), *options, "-cp", f"{JARS.folder}/*", *arguments])

    def _settings(self) -> dict[str, str]:
        listeners = {"PLAINTEXT": (self.port, "PLAINTEXT"), "CONTROLLER": (self.controller_port, "PLAINTEXT")}
        if self.users:
            listeners["SASL"] = (self.sasl_port, "SASL_PLAINTEXT")
        addresses = {name: f"{name}://{HOST}:{port}" for name, (port, _) in listeners.items()}
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{HOST}:{self.controller_port}",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "listeners": ",".join(addresses.values()),
            "advertised.listeners": ",".join(address for name, address in addresses.items() if name != "CONTROLLER"),
            "listener.security.protocol.map": ",".join(
                f"{name}:{protocol}" for name, (_, protocol) in listeners.items()
            ),
            "log.dirs": str(self.folder / "data"),
            # A missing topic must be an error that tests can see.
            "auto.create.topics.enable": "false",
            # Some tests write messages of years ago.
            "log.retention.ms": "-1",
            # One broker is all there is.
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            # Fewer partitions of its own topics: made and recovered sooner.
            "offsets.topic.num.partitions": "4",
            "transaction.state.log.num.partitions": "4",
            # A killed broker may return only after its former session has timed out (by default 9 s).
            "broker.session.timeout.ms": "2000",
            "broker.heartbeat.interval.ms": "300",
            # Tests don't want to wait: for members of a group that won't come, or for transactions that timed out.
            "group.initial.rebalance.delay.ms": "0",
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
            **self._passwords(),
        }

    def _passwords(self) -> dict[str, str]:
        if not self.users:
            return {}
        users = " ".join(f'user_{name}="{password}"' for name, password in self.users.items())
        module = "org.apache.kafka.common.security.plain.PlainLoginModule"
        return {
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl.plain.sasl.jaas.config": f"{module} required {users};",
        }

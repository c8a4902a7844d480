"""How do we talk to a Kafka cluster, and what do its errors mean to our users?"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cutwater.connectors.bases.extras import client
from cutwater.connectors.failures import PeerError
from cutwater.errors import ConfigurationError, CutwaterError

#: Settings of librdkafka that the guarantees rest on.
_OURS = frozenset({
    "bootstrap.servers", "metadata.broker.list", "group.id", "enable.auto.commit", "enable.auto.offset.store",
    "auto.offset.reset", "isolation.level", "enable.partition.eof", "transactional.id", "enable.idempotence",
    "on_delivery", "error_cb", "on_commit", "delivery.report.only.error", "logger",
})  # fmt: skip
#: How long the driver waits for a first answer.
ANSWER_WITHIN_SECONDS = 10.0
_REFUSED = frozenset({
    "_AUTHENTICATION", "_SSL", "SASL_AUTHENTICATION_FAILED", "TOPIC_AUTHORIZATION_FAILED", "UNSUPPORTED_SASL_MECHANISM",
    "GROUP_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
})  # fmt: skip
_MISSING = frozenset({"UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION"})
#: Trying again changes nothing.
_MISTAKES = {
    "MSG_SIZE_TOO_LARGE": 'raise max.message.bytes of the topic, and properties={"message.max.bytes": …}',
    "TOPIC_EXCEPTION": "check the name of the topic",
    "INVALID_RECORD": "the topic may want a key, or another timestamp",
    "INVALID_TRANSACTION_TIMEOUT": 'properties={"transaction.timeout.ms": …} must not exceed the broker\'s'
    " transaction.max.timeout.ms",
    "INVALID_REQUIRED_ACKS": "properties must not weaken acks",
    "_INVALID_ARG": "check properties: they are settings of librdkafka",
    "_NOT_IMPLEMENTED": "check properties: they are settings of librdkafka",
    "UNSUPPORTED_VERSION": "transactions need Kafka 2.5 or newer",
}


def kafka() -> Any:
    """The client's module."""
    return client("confluent_kafka", extra="kafka")


def kafka_admin() -> Any:
    return client("confluent_kafka.admin", extra="kafka")


CONSUMER_DEFAULTS: Mapping[str, Any] = {
    # Consumers that are assigned partitions may take their time.
    "max.poll.interval.ms": 86_400_000,
    # When the client holds enough of a partition, it looks again after this time: by default a second, in which a fast
    # reader runs dry.
    "fetch.queue.backoff.ms": 10,
}


class Cluster:
    """An address with the settings that lead there; pickled with the job. Has no `repr` of its own: there are passwords
    in it.
    """

    def __init__(self, servers: str | Sequence[str], properties: Mapping[str, Any] | None) -> None:
        self.servers = _checked_servers(servers)
        self._properties = _checked_properties(properties)

    def settings(self, defaults: Mapping[str, Any], ours: Mapping[str, Any]) -> dict[str, Any]:
        """For a client: users may change the defaults, but not what is ours."""
        # What happens is told by callbacks and errors; the library itself would write to stderr.
        common = {"log_level": 0, "client.id": "cutwater"}
        return {**common, **defaults, **self._properties, "bootstrap.servers": self.servers, **ours}

    def consumer(self, ours: Mapping[str, Any]) -> Any:
        return self._made(kafka().Consumer, CONSUMER_DEFAULTS, ours)

    def producer(self, defaults: Mapping[str, Any], ours: Mapping[str, Any]) -> Any:
        # Keys go to the partitions where Java's clients put them.
        return self._made(kafka().Producer, {"partitioner": "murmur2_random", "linger.ms": 5, **defaults}, ours)

    def admin(self, error_cb: Callable[[Any], None]) -> Any:
        return self._made(kafka_admin().AdminClient, {}, {"error_cb": error_cb})

    def partitions(self) -> dict[str, int]:
        """How many each topic has. Blocks until a broker answers; a clear error if none does."""
        problems: list[Any] = []
        admin = self.admin(problems.append)
        deadline_seconds = time.monotonic() + ANSWER_WITHIN_SECONDS
        while True:
            try:
                # All of them: to ask for one by name may create it.
                topics = admin.list_topics(timeout=1.0).topics
                return {name: len(topic.partitions) for name, topic in topics.items() if topic.error is None}
            except kafka().KafkaException as error:
                admin.poll(0)
                self._give_up_if_useless(problems)
                if time.monotonic() > deadline_seconds:
                    raise self.silent(problems[0] if problems else error.args[0]) from None

    def silent(self, error: Any) -> PeerError:
        return PeerError(
            f"no Kafka broker answers at {self.servers}",
            detail=error.str(),
            hint="check the address, and that properties match the listener (security.protocol, sasl.*, ssl.*)",
        )

    def failure(self, error: Any, doing: str) -> CutwaterError:
        """What a `KafkaError` means; `PeerError` when it may pass. `doing` as in "can't write to topic …"."""
        name = error.name()
        fact = f"can't {doing}"
        if name in _REFUSED:
            hint = "check the credentials in properties (security.protocol, sasl.*, ssl.*) and the rights of the user"
            return ConfigurationError(f"{fact}: Kafka at {self.servers} refuses it", detail=error.str(), hint=hint)
        if name in _MISSING:
            return ConfigurationError(
                f"{fact}: it isn't there", detail=f"{self.servers}: {error.str()}", hint="create the topic first"
            )
        if name in _MISTAKES:
            return ConfigurationError(fact, detail=f"{self.servers}: {error.str()}", hint=_MISTAKES[name])
        return PeerError(fact, detail=f"{self.servers}: {error.str()}")

    def _made(self, kind: Any, defaults: Mapping[str, Any], ours: Mapping[str, Any]) -> Any:
        try:
            return kind(self.settings(defaults, ours))
        except kafka().KafkaException as error:
            raise ConfigurationError(
                "Kafka's client doesn't accept these properties",
                detail=error.args[0].str(),
                hint="they are settings of librdkafka",
            ) from None

    def _give_up_if_useless(self, problems: Sequence[Any]) -> None:
        for problem in problems:
            if problem.name() in _REFUSED:
                raise self.failure(problem, "connect")


def _checked_servers(servers: str | Sequence[str]) -> str:
    joined = servers if isinstance(servers, str) else ",".join(servers)
    if not joined or not all(":" in each.strip() for each in joined.split(",")):
        raise ConfigurationError(
            "servers must be addresses of brokers",
            detail=f"it is {servers!r}",
            hint='such as "kafka-1:9092,kafka-2:9092"',
        )
    return joined


def _checked_properties(properties: Mapping[str, Any] | None) -> dict[str, Any]:
    given = dict(properties or {})
    taken = sorted(_OURS & given.keys())
    if taken:
        raise ConfigurationError(
            f"properties must not set {', '.join(taken)}",
            detail="exactly once rests on it, or an option of the connector says it",
            hint="options: servers, group, start, isolation, delivery",
        )
    return given

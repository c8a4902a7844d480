"""Which jars do peers need besides their Python packages? From Maven Central, into the folder of the servers' jars."""

from __future__ import annotations

from pathlib import Path

from servers.packages import Maven, NotInstallable

from benchmarks.peers.environments import Unavailable


class Alone(Maven):
    """These jars and no others. Spark's descriptions lead to a mirror first, which not every machine reaches."""

    __slots__ = ()

    def _dependencies(self) -> str:
        nothing = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
        return super()._dependencies().replace("</dependency>", f"{nothing}</dependency>")


#: The newest; it was made for Flink 2.2.
FLINK_KAFKA = Maven("flink-kafka-5.0.0-2.2", ("org.apache.flink:flink-sql-connector-kafka:5.0.0-2.2",))
#: Of later releases Maven Central had the connector, but not the spark-token-provider that it needs.
SPARK_KAFKA = Alone(
    "spark-kafka-4.0.0",
    (
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0",
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
        "org.apache.kafka:kafka-clients:3.9.0",
        "org.apache.commons:commons-pool2:2.12.0",
    ),
)


def jars_of(package: Maven, *, pattern: str = "*.jar") -> list[Path]:
    """May install them first, which takes minutes. Raises `Unavailable`."""
    try:
        if not package.is_there():
            package.install()
    except NotInstallable as reason:
        raise Unavailable(f"its connector can't be had: {reason}") from None
    return sorted(package.folder.glob(pattern))

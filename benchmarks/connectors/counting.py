"""Kafka → count per key → Kafka: how many messages a second, beside the peers, and are the counts right?

Every system is up and warm before the measured messages appear. They are written into the topic in one transaction, so
that no reader of committed messages sees any before all are there; its commit starts the clock. It stops when the
last result is committed in the target topic. Only the ends of its partitions are asked for meanwhile: reading the
results would take the processor from those who make them. They are read, and compared, afterwards.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field

from confluent_kafka import KafkaException
from rich.console import Console
from servers.install import reason_why_missing
from servers.kafka import Kafka

from benchmarks.connectors.catalogue import patient
from benchmarks.connectors.counted_topics import Family, Topics, WrongAnswer
from benchmarks.connectors.counting_contract import PER_BATCH, PER_RECORD, PER_SECOND, Count
from benchmarks.connectors.ratios import Run
from benchmarks.peers.environments import Unavailable, python_of
from benchmarks.peers.jars import FLINK_KAFKA, SPARK_KAFKA, jars_of
from benchmarks.subjects import LOGS

PARALLELISM = 2
#: So many times fewer messages are counted before the clock starts.
WARM_UP_SHARE = 4


@dataclass(frozen=True, slots=True)
class System:
    name: str
    module: str
    variant: str
    guarantee: str = "exactly once"
    #: The peer's environment and jars; None: our own Python.
    environment: str | None = None

    @property
    def label(self) -> str:
        return f"{self.name}, {self.variant}"

    def jars(self) -> tuple[str, ...]:
        """Raises `Unavailable`."""
        match self.environment:
            case "flink":
                return tuple(map(str, jars_of(FLINK_KAFKA, pattern="flink-sql-connector-kafka-*.jar")))
            case "spark-kafka":
                return tuple(map(str, jars_of(SPARK_KAFKA)))
        return ()

    def python(self) -> str:
        return sys.executable if self.environment is None else str(python_of(self.environment))


SYSTEMS = (
    System("Cutwater", "benchmarks.connectors.cutwater_count", PER_RECORD),
    System("Flink SQL", "benchmarks.peers.flink_kafka", PER_RECORD, environment="flink"),
    System("Cutwater", "benchmarks.connectors.cutwater_count", PER_SECOND),
    System("Flink SQL", "benchmarks.peers.flink_kafka", PER_SECOND, environment="flink"),
    System("Cutwater", "benchmarks.connectors.cutwater_count", PER_BATCH),
    System("Spark", "benchmarks.peers.spark_kafka", PER_BATCH, "at least once", environment="spark-kafka"),
)


@dataclass(slots=True)
class Counted:
    """One system, round by round."""

    system: System
    runs: list[Run] = field(default_factory=list)
    #: Why there is none, or what is wrong with it.
    complaint: str = ""


def measure(console: Console, *, rows: int, rounds: int) -> list[Counted]:
    found = [Counted(system) for system in SYSTEMS]
    if (reason := reason_why_missing(Kafka)) is not None:
        return [Counted(system, complaint=reason) for system in SYSTEMS]
    with patient(Kafka(optimised=True)) as server:
        for number in range(rounds):
            for index in range(len(found)):
                one = found[(index + number) % len(found)]
                if not one.complaint:
                    _measure_once(server.address, one, rows, f"{(index + number) % len(found)}-{number}", console)
    return found


def _measure_once(servers: str, one: Counted, rows: int, suffix: str, console: Console) -> None:
    try:
        one.runs.append(_run(servers, one.system, rows, suffix))
        run = one.runs[-1]
        console.print(
            f"{one.system.label:28} {run.rows_per_second:>12,.0f} messages/s, {run.cpu_us_per_row:.2f} µs each"
        )
    except (Unavailable, WrongAnswer, TimeoutError, KafkaException) as error:
        one.complaint = str(error)
        console.print(f"{one.system.label:28} [red]{error}[/]")


def _run(servers: str, system: System, rows: int, suffix: str) -> Run:
    python, jars = system.python(), system.jars()
    warm_up = rows // WARM_UP_SHARE
    topics = Topics(servers, f"in-{suffix}", f"out-{suffix}")
    scratch = tempfile.mkdtemp(prefix="cutwater-bench-")
    given = Count(servers, topics.source, topics.target, scratch, system.variant, PARALLELISM, jars=jars)
    topics.send(range(warm_up))
    log = LOGS / f"kafka-count-{system.label.replace(', ', '-').replace(' ', '_')}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as output:
        process = subprocess.Popen(
            [python, "-m", system.module, given.to_json()],
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    family = Family(process)
    try:
        topics.wait_for(warm_up, family)
        began, cpu_began = topics.send(range(warm_up, warm_up + rows), family)
        ended, cpu_ended = topics.wait_for(warm_up + rows, family)
    except TimeoutError as error:
        raise TimeoutError(f"{error} (more in {log})") from None
    finally:
        family.end()
        topics.close()
        shutil.rmtree(scratch, ignore_errors=True)
    if system.variant == PER_RECORD and topics.results != warm_up + rows:
        raise WrongAnswer(f"{topics.results:,} results for {warm_up + rows:,} messages")
    return Run(rows, ended - began, cpu_ended - cpu_began)

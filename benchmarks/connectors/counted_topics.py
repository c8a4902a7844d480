"""How do messages get into the source topic at one moment, and when are all results in the target?"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

import msgspec
import psutil
from confluent_kafka import Consumer, IsolationLevel, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from benchmarks.connectors.cases import payload
from benchmarks.connectors.kafka import MESSAGES_PER_CALL, PARTITIONS, make_topic, produce, producer_settings

POLL_SECONDS = 0.02
#: When the target has not grown for so long, it is read, and the counts are compared.
QUIET_SECONDS = 3.0
PATIENCE_SECONDS = 600.0
LEADERS_SECONDS_MAX = 60.0


class WrongAnswer(Exception):
    """Counts differ from what was put into the topic."""


class Family:
    """A process and those that it started."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._root = psutil.Process(process.pid)

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def cpu_seconds(self) -> float:
        total = 0.0
        with suppress(psutil.NoSuchProcess):
            for each in (self._root, *self._root.children(recursive=True)):
                with suppress(psutil.Error):
                    times = each.cpu_times()
                    total += times.user + times.system
        return total

    def end(self) -> None:
        members = []
        with suppress(psutil.NoSuchProcess):
            members = self._root.children(recursive=True)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        for each in members:
            with suppress(psutil.Error):
                each.kill()
        self._process.wait()


class Growth:
    """Looks at a size again and again on a thread of its own, so that no reading of results holds it up."""

    def __init__(self, size: Callable[[], int], family: Family) -> None:
        self._size = size
        self._family = family
        #: When it grew, and the family's processor time then.
        self.last = (time.monotonic(), family.cpu_seconds())
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Growth:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _watch(self) -> None:
        known = self._size()
        while not self._stopped.wait(POLL_SECONDS):
            if (found := self._size()) != known:
                known = found
                self.last = (time.monotonic(), self._family.cpu_seconds())


class Topics:
    """A source and a target, both new."""

    def __init__(self, servers: str, source: str, target: str) -> None:
        self._servers = servers
        self.source = source
        self.target = target
        for name in (source, target):
            make_topic(servers, name)
        self._admin = AdminClient({"bootstrap.servers": servers})
        self._partitions = [TopicPartition(target, number) for number in range(PARTITIONS)]
        settings = {
            "bootstrap.servers": servers,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
        self._consumer = Consumer(settings)
        self._consumer.assign([TopicPartition(target, number, 0) for number in range(PARTITIONS)])
        #: Of each key the newest count.
        self._counts: dict[str, int] = {}
        #: How many results there were.
        self.results = 0
        self._wait_for_leaders()

    def _wait_for_leaders(self) -> None:
        """A new topic has none for a moment."""
        deadline = time.monotonic() + LEADERS_SECONDS_MAX
        while True:
            try:
                self._size()
                return
            except KafkaException:
                if time.monotonic() > deadline:
                    raise
                time.sleep(POLL_SECONDS)

    def send(self, numbers: range, family: Family | None = None) -> tuple[float, float]:
        """All appear at one moment: behind this one. And the processor's time of the family up to it."""
        settings = {"bootstrap.servers": self._servers, "transactional.id": self.source, **producer_settings()}
        producer = Producer({**settings, "transaction.timeout.ms": 600_000})
        producer.init_transactions()
        producer.begin_transaction()
        size = self._size()
        for first in range(numbers.start, numbers.stop, 1000):
            produce(producer, self.source, first, min(first + 1000, numbers.stop))
        producer.flush()
        if self._size() != size:
            raise WrongAnswer("it counted messages that were not committed")
        before = time.monotonic(), 0.0 if family is None else family.cpu_seconds()
        producer.commit_transaction()
        return before

    def wait_for(self, sent: int, family: Family) -> tuple[float, float]:
        """When the last result was committed, and the processor's time of the family up to then.

        Raises `WrongAnswer`, and `TimeoutError` when results are missing for too long.
        """
        deadline = time.monotonic() + PATIENCE_SECONDS
        with Growth(self._size, family) as growth:
            while time.monotonic() - growth.last[0] < QUIET_SECONDS or not self._is_complete(sent):
                if family.has_ended:
                    raise TimeoutError("the program ended")
                if time.monotonic() > deadline:
                    counted = sum(self._counts.values())
                    raise TimeoutError(f"{counted:,} of {sent:,} messages were counted in {PATIENCE_SECONDS:.0f} s")
                time.sleep(POLL_SECONDS)
            return growth.last

    def _size(self) -> int:
        """Behind the last committed message, of all partitions."""
        asked = self._admin.list_offsets(
            {each: OffsetSpec.latest() for each in self._partitions}, isolation_level=IsolationLevel.READ_COMMITTED
        )
        return sum(future.result(30).offset for future in asked.values())

    def _is_complete(self, sent: int) -> bool:
        self._read()
        if sum(self._counts.values()) < sent:
            return False
        wanted = Counter(msgspec.json.decode(payload(index))["key"] for index in range(sent))
        if self._counts != wanted:
            wrong = next(key for key in wanted | self._counts if wanted.get(key) != self._counts.get(key))
            raise WrongAnswer(f"{wrong} was counted {self._counts.get(wrong)} times, not {wanted[wrong]}")
        return True

    def _read(self) -> None:
        """What is there now. Results of one key are in order: they are in one partition."""
        while messages := self._consumer.consume(MESSAGES_PER_CALL, 1.0):
            for message in messages:
                if message.error() is not None:
                    raise KafkaException(message.error())
                value = message.value()
                assert value is not None, "a deletion is no result"
                result = msgspec.json.decode(value)
                self._counts[result["key"]] = result["n"]
            self.results += len(messages)

    def close(self) -> None:
        """Deletes both: they are large."""
        self._consumer.close()
        for done in self._admin.delete_topics([self.source, self.target]).values():
            done.result(60)

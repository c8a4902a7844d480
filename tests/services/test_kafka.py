"""Do the readers and writers of Kafka keep their promises against a real broker?"""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import cloudpickle
import pyarrow as pa
import pytest
from servers.kafka import Kafka
from tests.services.kafka_topics import committed as committed_now
from tests.services.kafka_topics import end_is_stable, fresh_topic, produce, values
from tests.services.waiting import until

import cutwater as cw
from cutwater.batches import Batch, ObjectBatch
from cutwater.connectors.contract import Discovery, ReaderContext, Source, SplitReader, WriterContext
from cutwater.connectors.failures import PeerError
from cutwater.connectors.kafka import consuming
from cutwater.connectors.kafka.consuming import GapError
from cutwater.connectors.kafka.transactions import NumberForgottenError
from cutwater.errors import ConfigurationError, SchemaError
from cutwater.protocol.ids import AttemptNumber, CheckpointId
from cutwater.protocol.known_origins import KnownOrigins

_runs = count()


# -------------------------------------------------------------------------------------------------------------- source


def test_a_bounded_source_reads_what_was_there_when_it_was_discovered(kafka: Kafka) -> None:
    topic = fresh_topic(kafka, partitions=3)
    produce(kafka, topic, [b"%d" % number for number in range(3000)])
    source = cw.sources.kafka(kafka.bootstrap_servers, topic, bounded=True)
    found = source.discover(1)
    produce(kafka, topic, [b"late"])
    assert sorted(read_all(source, found), key=int) == [b"%d" % number for number in range(3000)]


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("earliest", [b"0", b"1", b"2", b"3"]),
        ("latest", [b"3"]),
        ("committed", [b"1", b"2", b"3"]),
        ("time", [b"2", b"3"]),
    ],
)
def test_a_source_begins_where_it_is_told(kafka: Kafka, start: Any, expected: list[bytes]) -> None:
    topic = fresh_topic(kafka)
    began = datetime.now(UTC) - timedelta(hours=1)
    for number in range(3):
        produce(kafka, topic, [b"%d" % number], timestamp=int(began.timestamp() * 1000) + 1000 * number)
    commit(kafka, topic, group=topic, offset=1)
    source = cw.sources.kafka(
        kafka.bootstrap_servers,
        topic,
        start=began + timedelta(seconds=1.5) if start == "time" else start,
        group=topic,
    )
    found = source.discover(1)
    produce(kafka, topic, [b"3"])
    assert read(source, found, records=len(expected)) == expected


def test_without_a_committed_offset_the_earliest_is_read(kafka: Kafka) -> None:
    topic = fresh_topic(kafka)
    produce(kafka, topic, [b"0"])
    source = cw.sources.kafka(kafka.bootstrap_servers, topic, start="committed", group=topic, bounded=True)
    assert read_all(source) == [b"0"]


def test_a_partition_that_appears_later_is_read_from_its_beginning(kafka: Kafka) -> None:
    topic = fresh_topic(kafka)
    produce(kafka, topic, [b"old"])
    source = cw.sources.kafka(kafka.bootstrap_servers, topic, start="latest")
    first = source.discover_new(1, KnownOrigins())
    add_partitions(kafka, topic, total=2)
    produce(kafka, topic, [b"new"], partition=1)
    second = source.discover_new(1, KnownOrigins.of(split.id for split in first.splits), first.state)
    assert [split.id for split in second.splits] == [f"{topic}/1"]
    assert read(source, second, records=1) == [b"new"]


def test_a_topic_that_matches_the_pattern_later_is_read_from_its_beginning(kafka: Kafka) -> None:
    prefix = fresh_topic(kafka)
    source = cw.sources.kafka(kafka.bootstrap_servers, pattern=f"{prefix}-.*", start="latest")
    first = source.discover_new(1, KnownOrigins())
    kafka.create_topic(f"{prefix}-a")
    produce(kafka, f"{prefix}-a", [b"new"])
    second = source.discover_new(1, KnownOrigins(), first.state)
    assert (first.splits, read(source, second, records=1)) == ((), [b"new"])


def test_messages_of_an_aborted_transaction_are_not_read(kafka: Kafka) -> None:
    topic = fresh_topic(kafka)
    in_transaction(kafka, topic, [b"aborted"], commits=False)
    in_transaction(kafka, topic, [b"committed"], commits=True)
    source = cw.sources.kafka(kafka.bootstrap_servers, topic, bounded=True)
    dirty = cw.sources.kafka(kafka.bootstrap_servers, topic, bounded=True, isolation="read_uncommitted")
    assert (read_all(source), read_all(dirty)) == ([b"committed"], [b"aborted", b"committed"])


def test_a_reader_resumes_at_its_position(kafka: Kafka) -> None:
    topic = fresh_topic(kafka)
    produce(kafka, topic, [b"%d" % number for number in range(5000)])
    source = cw.sources.kafka(kafka.bootstrap_servers, topic, bounded=True)
    (split,) = source.discover(1).splits
    reader = source.reader(split, None, ReaderContext())
    first = next_batch(reader)
    position = reader.position
    reader.close()
    rest = read_all(source, Discovery((split,), complete=True), positions={split.id: position})
    assert first.values + rest == [b"%d" % number for number in range(5000)]


@pytest.mark.parametrize("limit", [10, 4000])
def test_a_loop_that_wants_another_number_of_messages_meanwhile_gets_each_once(kafka: Kafka, limit: int) -> None:
    topic = fresh_topic(kafka)
    produce(kafka, topic, [b"%d" % number for number in range(5000)])
    opened = threading.Event()

    def asks_meanwhile(value: bytes) -> bytes:
        """On the consumer's thread, between the messages that it hands over."""
        if value == b"100" and opened.wait(30):
            assert reader.read(limit, 0.0) is None
        return value

    source = cw.sources.kafka(kafka.bootstrap_servers, topic, value=asks_meanwhile, bounded=True)
    reader = source.reader(source.discover(1).splits[0], None, ReaderContext())
    opened.set()
    found = drained(reader)
    reader.close()
    assert found == [b"%d" % number for number in range(5000)]


def test_an_offset_that_retention_took_is_an_error_that_names_the_gap(kafka: Kafka) -> None:
    topic = fresh_topic(kafka)
    produce(kafka, topic, [b"%d" % number for number in range(10)])
    source = cw.sources.kafka(kafka.bootstrap_servers, topic)
    found = source.discover(1)
    delete_before(kafka, topic, offset=7)
    with pytest.raises(GapError) as caught:
        read(source, found, records=1)
    assert str(caught.value).splitlines()[:2] == [
        f"{topic}/0 has no offset 0 any more",
        "  detail: the first that is there is 7: 7 offsets are gone, most likely by retention",
    ]


def test_a_partition_that_is_left_alone_does_not_hold_up_the_others(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consuming, "WAITING_ROWS_MAX", 2000)
    topic = fresh_topic(kafka, partitions=2)
    for partition in range(2):
        produce(kafka, topic, [b"%d" % number for number in range(30_000)], partition=partition)
    source = cw.sources.kafka(kafka.bootstrap_servers, topic, bounded=True)
    context = ReaderContext()
    left_alone, other = (source.reader(split, None, context) for split in source.discover(1).splits)
    try:
        read_one = drained(other)
        assert (read_one, drained(left_alone)) == ([b"%d" % number for number in range(30_000)],) * 2
    finally:
        left_alone.close()
        other.close()


def test_readers_of_a_task_share_one_consumer_that_ends_with_the_last(kafka: Kafka) -> None:
    topic = fresh_topic(kafka, partitions=2)
    source = cw.sources.kafka(kafka.bootstrap_servers, topic)
    context = ReaderContext()
    readers = [source.reader(split, None, context) for split in source.discover(1).splits]
    (consumer,) = context.shared.values()
    for reader in readers:
        reader.close()
    again = source.reader(source.discover(1).splits[0], None, context)
    (other,) = context.shared.values()
    again.close()
    assert other is not consumer


def test_completed_checkpoints_commit_offsets_for_the_group(kafka: Kafka) -> None:
    topic = fresh_topic(kafka)
    produce(kafka, topic, [b"0", b"1"])
    source = cw.sources.kafka(kafka.bootstrap_servers, topic, group=topic)
    (split,) = source.discover(1).splits
    reader = source.reader(split, None, ReaderContext())
    next_batch(reader)
    reader.checkpoint_completed(reader.position)
    until(lambda: committed_offset(kafka, topic, group=topic) == 2)
    reader.close()


def test_lag_is_what_was_not_read_yet(kafka: Kafka) -> None:
    topic = fresh_topic(kafka)
    produce(kafka, topic, [b"x"] * 1500)
    source = cw.sources.kafka(kafka.bootstrap_servers, topic)
    (split,) = source.discover(1).splits
    reader = source.reader(split, None, ReaderContext())
    lags = []
    while reader.position < 1500:
        next_batch(reader)
        lags.append(reader.lag)
    reader.close()
    assert lags == [1500 - 1024, 0]


def test_messages_become_texts_json_rows_and_records(kafka: Kafka) -> None:
    topic = fresh_topic(kafka)
    produce(kafka, topic, [b'{"name": "a", "n": 1}', None], key=b"k", timestamp=1_700_000_000_000, headers={"h": b"1"})

    def given(**options: Any) -> list[Any]:
        return read_all(cw.sources.kafka(kafka.bootstrap_servers, topic, bounded=True, **options))

    assert given(value="text") == ['{"name": "a", "n": 1}', None]
    assert given(value="json") == [{"name": "a", "n": 1}, None]
    assert given(value=len) == [21, None]
    schema = pa.schema([("n", pa.int64()), ("missing", pa.string())])
    assert given(schema=schema) == [{"n": 1, "missing": None}, {"n": None, "missing": None}]
    typed = given(schema=schema, with_metadata=True)[0]
    assert typed == {
        "n": 1, "missing": None, "kafka_key": b"k", "kafka_topic": topic, "kafka_partition": 0, "kafka_offset": 0,
        "kafka_timestamp": datetime.fromtimestamp(1_700_000_000, UTC),
    }  # fmt: skip
    record = given(value="json", with_metadata=True)[0]
    assert (record.value["n"], record.key, record.topic, record.partition, record.offset) == (1, b"k", topic, 0, 0)
    assert (record.timestamp_ms, record.headers) == (1_700_000_000_000, [("h", b"1")])


@pytest.mark.parametrize(
    "options",
    [
        {"value": "json"},
        {"schema": pa.schema([("n", pa.int64())])},
    ],
)
def test_a_message_that_cannot_be_decoded_is_named(kafka: Kafka, options: dict[str, Any]) -> None:
    topic = fresh_topic(kafka)
    produce(kafka, topic, [b'{"n": 1}', b'{"n": "one"', b'{"n": 3}'])
    with pytest.raises(SchemaError) as caught:
        read_all(cw.sources.kafka(kafka.bootstrap_servers, topic, bounded=True, **options))
    assert caught.value.fact == f"message 1 of {topic}/0 can't be decoded"


def test_a_source_goes_on_when_the_broker_was_killed_and_is_back(kafka: Kafka) -> None:
    topic = fresh_topic(kafka)
    produce(kafka, topic, [b"before"])
    source = cw.sources.kafka(kafka.bootstrap_servers, topic)
    (split,) = source.discover(1).splits
    reader = source.reader(split, None, ReaderContext())
    before = next_batch(reader).values
    kafka.restart()
    produce(kafka, topic, [b"after"])
    after = next_batch(reader).values
    reader.close()
    assert (before, after) == ([b"before"], [b"after"])


# ---------------------------------------------------------------------------------------------------------------- sink


def test_an_epoch_is_visible_when_it_is_committed_and_only_once(kafka: Kafka) -> None:
    topic = fresh_topic(kafka, partitions=2)
    sink = cw.sinks.kafka(kafka.bootstrap_servers, topic, key=lambda record: record[-1:])
    writer = sink.writer(writing(attempt=1))
    writer.write(ObjectBatch([b"a1", b"b2"]))
    prepared = writer.prepare(CheckpointId(1))
    before = values(committed(kafka, topic))
    for _ in range(2):
        writer.commit(prepared)
    copy_of(sink).recover(job_id="job", uid="out", committables=prepared, attempt=AttemptNumber(2))
    after = sorted((message.key(), message.value()) for message in committed(kafka, topic))
    assert (before, after) == ([], [(b"1", b"a1"), (b"2", b"b2")])


def test_a_large_epoch_is_one_transaction_in_the_order_of_each_key(kafka: Kafka) -> None:
    topic = fresh_topic(kafka, partitions=2)
    sink = cw.sinks.kafka(kafka.bootstrap_servers, topic, value="json", key=lambda number: number % 7)
    writer = sink.writer(writing(attempt=1))
    for begin in range(0, 200_000, 1000):
        writer.write(ObjectBatch(list(range(begin, begin + 1000))))
    writer.commit(writer.prepare(CheckpointId(1)))
    of_keys: dict[bytes, list[int]] = {}
    for message in committed(kafka, topic):
        of_keys.setdefault(message.key(), []).append(int(message.value()))
    assert of_keys == {b"%d" % key: list(range(key, 200_000, 7)) for key in range(7)}


def test_a_zombie_that_commits_late_changes_nothing_and_does_not_stop_its_successor(kafka: Kafka) -> None:
    topic = fresh_topic(kafka)
    context = writing(attempt=1)
    zombie = cw.sinks.kafka(kafka.bootstrap_servers, topic)
    old_writer = zombie.writer(context)
    old_writer.write(ObjectBatch([b"1"]))
    old = old_writer.prepare(CheckpointId(1))
    successor = copy_of(zombie)
    successor.recover(job_id="job", uid="out", committables=old, attempt=AttemptNumber(2))
    writer = successor.writer(writing(attempt=2, run=context.run))
    commit_of(writer, b"2", checkpoint=2)
    old_writer.commit(old)
    copy_of(zombie).recover(job_id="job", uid="out", committables=old, attempt=AttemptNumber(1))
    commit_of(writer, b"3", checkpoint=3)
    assert values(committed(kafka, topic)) == [b"1", b"2", b"3"]


def test_what_a_killed_process_left_open_is_ended_by_its_successor(kafka: Kafka) -> None:
    topic = fresh_topic(kafka)
    context = writing(attempt=1)
    sink = cw.sinks.kafka(kafka.bootstrap_servers, topic)
    writer = sink.writer(context)
    writer.write(ObjectBatch([b"1"]))
    prepared = writer.prepare(CheckpointId(1))
    left_open(sink, prepared)
    assert not end_is_stable(kafka, topic)
    copy_of(sink).recover(job_id="job", uid="out", committables=prepared, attempt=AttemptNumber(2))
    until(lambda: end_is_stable(kafka, topic))
    assert values(committed(kafka, topic)) == [b"1"]


def test_nothing_is_lost_when_the_job_is_down_for_longer_than_a_transaction_may_last(kafka: Kafka) -> None:
    topic = fresh_topic(kafka)
    sink = cw.sinks.kafka(kafka.bootstrap_servers, topic, properties={"transaction.timeout.ms": 1000})
    writer = sink.writer(writing(attempt=1))
    commit_of(writer, b"1", checkpoint=1)
    writer.write(ObjectBatch([b"2"]))
    prepared = writer.prepare(CheckpointId(2))
    time.sleep(4)  # the broker aborts what is open for longer than a second
    copy_of(sink).recover(job_id="job", uid="out", committables=prepared, attempt=AttemptNumber(2))
    assert values(committed(kafka, topic)) == [b"1", b"2"]


def test_an_epoch_that_was_begun_when_the_broker_was_killed_is_written_once(kafka: Kafka) -> None:
    topic = fresh_topic(kafka)
    sink = cw.sinks.kafka(kafka.bootstrap_servers, topic)
    writer = sink.writer(writing(attempt=1))
    commit_of(writer, b"1", checkpoint=1)
    writer.write(ObjectBatch([b"2"]))
    prepared = writer.prepare(CheckpointId(2))
    left_open(sink, prepared)
    kafka.restart()
    writer.commit(prepared)
    assert values(committed(kafka, topic)) == [b"1", b"2"]


@pytest.mark.trials
def test_epochs_are_written_once_each_though_the_broker_is_killed_in_mid_transaction_again_and_again(
    kafka: Kafka,
) -> None:
    topic = fresh_topic(kafka, partitions=3)
    writer = cw.sinks.kafka(kafka.bootstrap_servers, topic, value="json").writer(writing(attempt=1))
    over = threading.Event()
    written = count()

    def write() -> None:
        while not over.is_set():
            number = next(written)
            writer.write(ObjectBatch(list(range(number * 1500, (number + 1) * 1500))))
            writer.commit(writer.prepare(CheckpointId(number + 1)))

    thread = threading.Thread(target=write)
    thread.start()
    for _ in range(5):
        until(lambda: not end_is_stable(kafka, topic), seconds=120)
        kafka.restart()
    over.set()
    thread.join()
    found = sorted(int(value) for value in values(committed(kafka, topic)))
    assert found == list(range(next(written) * 1500))


def test_a_number_that_the_cluster_has_forgotten_is_an_error_unless_the_user_decides(kafka: Kafka) -> None:
    topic = fresh_topic(kafka)
    sink = cw.sinks.kafka(kafka.bootstrap_servers, topic)
    writer = sink.writer(writing(attempt=1))
    writer.write(ObjectBatch([b"1"]))
    prepared = writer.prepare(CheckpointId(1))
    writer.commit(prepared)
    assert values(committed(kafka, topic)) == [b"1"]
    forget_groups(kafka, topic)
    facts: dict[str, Any] = {"job_id": "job", "uid": "out", "committables": prepared, "attempt": AttemptNumber(2)}
    with pytest.raises(NumberForgottenError, match="no longer knows which epochs were written"):
        copy_of(sink).recover(**facts)
    cw.sinks.kafka(kafka.bootstrap_servers, topic, if_forgotten="skip").recover(**facts)
    skipped = values(committed(kafka, topic))
    forget_groups(kafka, topic)
    cw.sinks.kafka(kafka.bootstrap_servers, topic, if_forgotten="write").recover(**facts)
    assert (skipped, values(committed(kafka, topic))) == ([b"1"], [b"1", b"1"])


def test_a_function_chooses_the_topic_of_each_record(kafka: Kafka) -> None:
    topics = [fresh_topic(kafka), fresh_topic(kafka)]
    sink = cw.sinks.kafka(kafka.bootstrap_servers, lambda record: topics[len(record) % 2], topics=topics, value="text")
    writer = sink.writer(writing(attempt=1))
    writer.write(ObjectBatch(["aa", "b", "cc"]))
    writer.commit(writer.prepare(CheckpointId(1)))
    assert [values(committed(kafka, topic)) for topic in topics] == [[b"aa", b"cc"], [b"b"]]


def test_a_message_that_is_too_large_is_one_clear_error(kafka: Kafka) -> None:
    topic = fresh_topic(kafka)
    writer = cw.sinks.kafka(kafka.bootstrap_servers, topic).writer(writing(attempt=1))
    writer.write(ObjectBatch([b"x" * 2_000_000]))
    with pytest.raises(ConfigurationError, match=f"can't write to topic '{topic}'") as caught:
        writer.commit(writer.prepare(CheckpointId(1)))
    assert "max.message.bytes" in caught.value.hint


def test_at_least_once_a_barrier_waits_for_the_brokers(kafka: Kafka) -> None:
    topic = fresh_topic(kafka)
    sink = cw.sinks.kafka(kafka.bootstrap_servers, topic, delivery="at_least_once")
    writer = sink.writer(writing(attempt=1))
    writer.write(ObjectBatch([b"%d" % number for number in range(1000)]))
    promise: Any = writer.prepare(CheckpointId(1))
    promised = list(promise.result(30))
    found = values(committed(kafka, topic))
    writer.close()
    assert (promised, found) == ([], [b"%d" % number for number in range(1000)])


def test_at_least_once_nothing_is_lost_when_the_broker_is_killed(kafka: Kafka) -> None:
    topic = fresh_topic(kafka)
    sink = cw.sinks.kafka(kafka.bootstrap_servers, topic, delivery="at_least_once")
    writer = sink.writer(writing(attempt=1))
    writer.write(ObjectBatch([b"before"]))
    kafka.kill()
    writer.write(ObjectBatch([b"meanwhile"]))
    promise: Any = writer.prepare(CheckpointId(1))
    kafka.restart()
    promise.result(60)
    writer.close()
    assert set(values(committed(kafka, topic))) == {b"before", b"meanwhile"}


# ------------------------------------------------------------------------------------------------------------ mistakes


def test_an_address_where_no_broker_answers_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cutwater.connectors.kafka.cluster.ANSWER_WITHIN_SECONDS", 0.0)
    for connector in (cw.sources.kafka("127.0.0.1:1", "orders"), cw.sinks.kafka("127.0.0.1:1", "orders")):
        with pytest.raises(PeerError, match=r"^no Kafka broker answers at 127\.0\.0\.1:1"):
            connector.check()


def test_a_topic_that_is_not_there_is_one_clear_error(kafka: Kafka) -> None:
    for connector in (cw.sources.kafka(kafka.address, "nowhere"), cw.sinks.kafka(kafka.address, "nowhere")):
        with pytest.raises(ConfigurationError, match=f"^Kafka at {kafka.address} has no topic 'nowhere'"):
            connector.check()


def test_a_wrong_password_is_one_clear_error_that_does_not_show_it(kafka: Kafka) -> None:
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "alice"}
    with Kafka(users={"alice": "secret"}) as server:
        topic = fresh_topic(server)
        cw.sources.kafka(server.sasl_address, topic, properties={**login, "sasl.password": "secret"}).check()
        with pytest.raises(ConfigurationError, match="refuses it") as caught:
            cw.sinks.kafka(server.sasl_address, topic, properties={**login, "sasl.password": "mistyped"}).check()
    assert "mistyped" not in str(caught.value)


# ------------------------------------------------------------------------------------------------------------- helpers


def committed(kafka: Kafka, topic: str) -> list[Any]:
    """When all transactions have ended: the broker does that a moment after it has said so."""
    until(lambda: end_is_stable(kafka, topic))
    return committed_now(kafka, topic)


def read_all(source: Source, found: Discovery | None = None, positions: dict[str, Any] | None = None) -> list[Any]:
    """To the end of a bounded source."""
    found = found or source.discover(1)
    context = ReaderContext()
    readers = [source.reader(split, (positions or {}).get(split.id), context) for split in found.splits]
    try:
        return [value for reader in readers for value in drained(reader)]
    finally:
        for reader in readers:
            reader.close()


def read(source: Source, found: Discovery, *, records: int) -> list[Any]:
    context = ReaderContext()
    readers = [source.reader(split, None, context) for split in found.splits]
    values: list[Any] = []
    try:
        while len(values) < records:
            for reader in readers:
                values += next_batch(reader).values
        return values
    finally:
        for reader in readers:
            reader.close()


def drained(reader: SplitReader) -> list[Any]:
    values: list[Any] = []
    deadline = time.monotonic() + 60
    while not reader.finished:
        batch = reader.read(1024, 0.0)
        if batch is None:
            assert time.monotonic() < deadline, f"stuck at {reader.position}"
            time.sleep(0.002)
        else:
            values += batch.values if isinstance(batch, ObjectBatch) else batch.to_pylist()
    return values


def next_batch(reader: SplitReader) -> Any:
    found: list[Batch] = []

    def look() -> bool:
        batch = reader.read(1024, 0.0)
        if batch is not None:
            found.append(batch)
        return bool(found)

    until(look, seconds=60)
    return found[0]


def writing(*, attempt: int, run: str | None = None) -> WriterContext:
    return WriterContext("job", "out", 0, 1, AttemptNumber(attempt), run=run or f"{time.time_ns()}-{next(_runs)}")


def copy_of(sink: Any) -> Any:
    """As another process gets it."""
    return cloudpickle.loads(cloudpickle.dumps(sink))


def commit_of(writer: Any, value: bytes, *, checkpoint: int) -> None:
    writer.write(ObjectBatch([value]))
    writer.commit(writer.prepare(CheckpointId(checkpoint)))


def left_open(sink: Any, prepared: list[bytes]) -> None:
    """A process that dies after the records of the epoch have gone out, before its transaction ends."""
    dying = copy_of(sink)
    writers = dying._transactions

    def open_and_die(producer: Any, number: int, messages: Any) -> None:
        producer.client.begin_transaction()
        producer.produce(messages)
        producer.flush()
        raise SystemExit

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cutwater.connectors.kafka.transactions._Writer._drop", lambda self: None)
        patch.setattr(
            "cutwater.connectors.kafka.transactions._Writer._commit", lambda self, *given: open_and_die(*given)
        )
        with pytest.raises(SystemExit):
            dying.commit(prepared)
    # The producer must not be collected: that would end the transaction in order.
    _dead.append(writers)


_dead: list[Any] = []


def in_transaction(kafka: Kafka, topic: str, values: list[bytes], *, commits: bool) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": f"of {topic}"})
    producer.init_transactions(30)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value)
    producer.flush(30)
    if commits:
        producer.commit_transaction(30)
    else:
        producer.abort_transaction(30)


def admin_of(kafka: Kafka) -> Any:
    from confluent_kafka.admin import AdminClient

    return AdminClient({"bootstrap.servers": kafka.bootstrap_servers})


def add_partitions(kafka: Kafka, topic: str, *, total: int) -> None:
    from confluent_kafka.admin import NewPartitions

    admin = admin_of(kafka)
    admin.create_partitions([NewPartitions(topic, total)])[topic].result(30)
    until(lambda: len(admin.list_topics(timeout=30).topics[topic].partitions) == total)


def delete_before(kafka: Kafka, topic: str, *, offset: int) -> None:
    from confluent_kafka import TopicPartition

    admin = admin_of(kafka)  # its futures need it alive
    for future in admin.delete_records([TopicPartition(topic, 0, offset)]).values():
        future.result(30)


def commit(kafka: Kafka, topic: str, *, group: str, offset: int) -> None:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


def committed_offset(kafka: Kafka, topic: str, *, group: str) -> int:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": group})
    try:
        (found,) = consumer.committed([TopicPartition(topic, 0)], timeout=30)
        return int(found.offset)
    finally:
        consumer.close()


def forget_groups(kafka: Kafka, topic: str) -> None:
    """As time would, for all groups in which sinks keep their numbers."""
    admin = admin_of(kafka)
    groups = [group.group_id for group in admin.list_consumer_groups().result(30).valid]
    ours = [group for group in groups if group.startswith("cutwater.")]
    # A number whose transaction is still ending would come back: this waits for it.
    for group in ours:
        committed_offset(kafka, topic, group=group)
    for future in admin.delete_consumer_groups(ours).values():
        future.result(30)

"""Does each server keep what it has acknowledged when it is killed and started again?

And does none outlive those who started it? The connectors' tests rely on both.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from servers import guard
from servers.azurite import CONTAINER, Azurite
from servers.cassandra import Cassandra
from servers.hdfs import Hdfs
from servers.kafka import Kafka
from servers.kinesis import Kinesis
from servers.mariadb import MariaDB
from servers.nats import Nats
from servers.postgres import Postgres
from servers.process import Command, Server, ServerFailed
from servers.rabbitmq import RabbitMQ
from servers.redis import Redis
from servers.registry import SchemaRegistry
from servers.seaweedfs import BUCKET, SeaweedFs

from cutwater.connectors.formats.registry import Registry, RegistryClient
from cutwater.errors import ConfigurationError

from .waiting import until

PROJECT = Path(__file__).parents[2]


# --------------------------------------------------------------------------------------------------------------- Kafka


def test_kafka_keeps_records_when_it_is_killed(kafka: Kafka) -> None:
    kafka.create_topic("kept")
    produce(kafka, "kept", [b"before"])
    kafka.kill()
    kafka.restart()
    produce(kafka, "kept", [b"after"])
    assert consume(kafka, "kept") == [b"before", b"after"]


def test_kafka_shows_no_record_of_an_aborted_transaction(kafka: Kafka) -> None:
    from confluent_kafka import Producer

    kafka.create_topic("transactions")
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": "test"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("transactions", b"aborted")
    producer.flush(30)
    producer.abort_transaction(30)
    producer.begin_transaction()
    producer.produce("transactions", b"committed")
    producer.commit_transaction(30)
    assert consume(kafka, "transactions") == [b"committed"]


def test_a_transaction_of_kafka_that_was_open_when_the_broker_was_killed_can_still_commit(kafka: Kafka) -> None:
    from confluent_kafka import Producer

    kafka.create_topic("open")
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": "open"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("open", b"before")
    producer.flush(30)
    kafka.restart()
    producer.produce("open", b"after")
    producer.commit_transaction(60)
    assert consume(kafka, "open") == [b"before", b"after"]


def test_kafka_refuses_a_wrong_password_where_it_asks_for_one(kafka: Kafka) -> None:
    from confluent_kafka import KafkaError
    from confluent_kafka.admin import AdminClient

    problems: list[Any] = []
    settings = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "alice"}
    with Kafka(users={"alice": "secret"}) as server:
        settings["bootstrap.servers"] = server.sasl_address
        right = AdminClient({**settings, "sasl.password": "secret"})
        assert right.list_topics(timeout=30).topics == {}
        wrong = AdminClient({**settings, "sasl.password": "wrong", "error_cb": problems.append})
        until(lambda: wrong.poll(0.1) or any(each.code() == KafkaError._AUTHENTICATION for each in problems))


def produce(kafka: Kafka, topic: str, values: list[bytes]) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(30) == 0


def consume(kafka: Kafka, topic: str) -> list[bytes]:
    """What a consumer that reads only what is committed finds in a topic of one partition."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

    settings = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": "test", "isolation.level": "read_committed"}
    consumer = Consumer({**settings, "enable.partition.eof": True, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    values = []
    try:
        while True:
            (message,) = consumer.consume(1, 30) or [None]
            assert message is not None, f"{topic} did not end within 30 s"
            if message.error() is None:
                values.append(message.value())
            elif message.error().code() == KafkaError._PARTITION_EOF:
                return values
    finally:
        consumer.close()


# ------------------------------------------------------------------------------------------------------ schema registry


def test_the_registry_keeps_schemas_their_ids_and_rules_when_it_is_killed(registry: SchemaRegistry) -> None:
    client = RegistryClient(Registry(registry.url), patient=False)
    before = client.register("kept", '"string"', "AVRO", (), adds=True)
    registry.demand_compatibility("kept", "BACKWARD")
    registry.kill()
    registry.restart()
    with pytest.raises(ConfigurationError, match="incompatible"):
        client.register("kept", '"long"', "AVRO", (), adds=True)
    after = client.register("kept", '["string", "long"]', "AVRO", (), adds=True)
    assert [client.by_id(each).text for each in (before, after)] == ['"string"', '["string", "long"]']


def test_the_registry_listens_on_its_own_port_only(registry: SchemaRegistry) -> None:
    import psutil

    # A transaction would open another one.
    RegistryClient(Registry(registry.url), patient=False).register("ports", '"string"', "AVRO", (), adds=True)
    ports = {
        connection.laddr.port
        for process in registry.processes
        for connection in psutil.Process(process).net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    }
    assert ports == {registry.port}


# ---------------------------------------------------------------------------------------------------------- PostgreSQL


def test_postgres_commits_a_transaction_that_was_prepared_before_it_was_killed(postgres: Postgres) -> None:
    import psycopg

    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute("CREATE TABLE prepared (number int PRIMARY KEY)")
        connection.execute("INSERT INTO prepared VALUES (1)")
        connection.execute("BEGIN")
        connection.execute("INSERT INTO prepared VALUES (2)")
        connection.execute("PREPARE TRANSACTION 'checkpoint 7'")
    postgres.kill()
    postgres.restart()
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        before = connection.execute("SELECT number FROM prepared ORDER BY 1").fetchall()
        connection.execute("COMMIT PREPARED 'checkpoint 7'")
        after = connection.execute("SELECT number FROM prepared ORDER BY 1").fetchall()
    assert (before, after) == ([(1,)], [(1,), (2,)])


def test_postgres_refuses_a_wrong_password(postgres: Postgres) -> None:
    import psycopg

    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(postgres.url.replace(postgres.password, "wrong"))


def test_a_paused_server_does_not_answer_until_it_resumes(postgres: Postgres) -> None:
    import psycopg

    postgres.pause()
    with pytest.raises(psycopg.OperationalError, match="timeout"):
        psycopg.connect(postgres.url, connect_timeout=2)
    postgres.resume()
    with psycopg.connect(postgres.url) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


# --------------------------------------------------------------------------------------------------------------- Redis


def test_redis_keeps_a_stream_when_it_is_killed(redis: Redis) -> None:
    import redis as clients

    with clients.Redis(port=redis.port) as client:
        client.xadd("kept", {"number": 1})
    redis.kill()
    redis.restart()
    with clients.Redis(port=redis.port, decode_responses=True) as client:
        client.xadd("kept", {"number": 2})
        assert [fields for _, fields in client.xrange("kept")] == [{"number": "1"}, {"number": "2"}]


# ------------------------------------------------------------------------------------------------------------ RabbitMQ


@pytest.mark.parametrize("kind", ["classic", "quorum", "stream"])
def test_rabbitmq_keeps_messages_when_it_is_killed(rabbitmq: RabbitMQ, kind: str) -> None:
    publish_to_rabbitmq(rabbitmq, kind, b"before")
    rabbitmq.write_queues_to_disk()
    until(lambda: rabbitmq.has_leader_on_disk(f"kept-{kind}", kind=kind))
    rabbitmq.kill()
    rabbitmq.restart()
    # A stream is back a moment after the server answers.
    until(lambda: queue_is_available(rabbitmq, f"kept-{kind}"))
    publish_to_rabbitmq(rabbitmq, kind, b"after")
    assert consume_from_rabbitmq(rabbitmq, kind, count=2) == [b"before", b"after"]


def queue_is_available(server: RabbitMQ, name: str) -> bool:
    import pika

    with pika.BlockingConnection(pika.URLParameters(server.url)) as connection:
        try:
            connection.channel().queue_declare(name, passive=True)
        except pika.exceptions.ChannelClosedByBroker:
            return False
    return True


def publish_to_rabbitmq(server: RabbitMQ, kind: str, message: bytes) -> None:
    """Into a queue that is named after its kind. Returns when the server has confirmed."""
    import pika

    with pika.BlockingConnection(pika.URLParameters(server.url)) as connection:
        channel = connection.channel()
        channel.queue_declare(f"kept-{kind}", durable=True, arguments={"x-queue-type": kind})
        channel.confirm_delivery()
        channel.basic_publish("", f"kept-{kind}", message, pika.BasicProperties(delivery_mode=2), mandatory=True)


def consume_from_rabbitmq(server: RabbitMQ, kind: str, *, count: int) -> list[bytes]:
    import pika

    found: list[bytes] = []

    def take(channel: Any, method: Any, properties: Any, body: bytes) -> None:
        found.append(body)
        channel.basic_ack(method.delivery_tag)

    with pika.BlockingConnection(pika.URLParameters(server.url)) as connection:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=10)
        channel.basic_consume(
            f"kept-{kind}", take, arguments={"x-stream-offset": "first"} if kind == "stream" else None
        )
        until(lambda: connection.process_data_events(0.1) or len(found) >= count)
    return found


# ---------------------------------------------------------------------------------------------------------------- NATS


def test_nats_keeps_a_stream_when_it_is_killed(nats: Nats) -> None:
    import nats as clients
    from nats.js.api import ConsumerConfig, DeliverPolicy

    async def publish(subject: str, message: bytes) -> None:
        client = await clients.connect(nats.url)
        stream = client.jetstream()
        await stream.add_stream(name="kept", subjects=["kept"])
        await stream.publish(subject, message)
        await client.close()

    async def fetch(count: int) -> list[bytes]:
        client = await clients.connect(nats.url)
        settings = ConsumerConfig(deliver_policy=DeliverPolicy.ALL)
        subscription = await client.jetstream().pull_subscribe("kept", durable="test", config=settings)
        messages = await subscription.fetch(count, timeout=30)
        await client.close()
        return [message.data for message in messages]

    asyncio.run(publish("kept", b"before"))
    nats.kill()
    nats.restart()
    asyncio.run(publish("kept", b"after"))
    assert asyncio.run(fetch(2)) == [b"before", b"after"]


# ------------------------------------------------------------------------------------------------------------- MariaDB


def test_mariadb_commits_a_transaction_that_was_prepared_before_it_was_killed(mariadb: MariaDB) -> None:
    with mariadb_cursor(mariadb) as cursor:
        cursor.execute("CREATE TABLE prepared (number int PRIMARY KEY)")
        cursor.execute("INSERT INTO prepared VALUES (1)")
        cursor.execute("XA START 'checkpoint 7'")
        cursor.execute("INSERT INTO prepared VALUES (2)")
        cursor.execute("XA END 'checkpoint 7'")
        cursor.execute("XA PREPARE 'checkpoint 7'")
    mariadb.kill()
    mariadb.restart()
    with mariadb_cursor(mariadb) as cursor:
        cursor.execute("SELECT number FROM prepared ORDER BY 1")
        before = cursor.fetchall()
        cursor.execute("XA COMMIT 'checkpoint 7'")
        cursor.execute("SELECT number FROM prepared ORDER BY 1")
        after = cursor.fetchall()
    assert (before, after) == (((1,),), ((1,), (2,)))


@contextmanager
def mariadb_cursor(server: MariaDB) -> Iterator[Any]:
    import pymysql

    with (
        pymysql.connect(
            host="127.0.0.1",
            port=server.port,
            user=server.user,
            password=server.password,
            database=server.database,
            autocommit=True,
        ) as connection,
        connection.cursor() as cursor,
    ):
        yield cursor


# ------------------------------------------------------------------------------------------------------------- Kinesis


def test_kinesis_keeps_records_when_it_is_killed(kinesis: Kinesis) -> None:
    import boto3

    client = boto3.client("kinesis", endpoint_url=kinesis.endpoint, **kinesis.credentials)
    client.create_stream(StreamName="kept", ShardCount=1)
    client.get_waiter("stream_exists").wait(StreamName="kept", WaiterConfig={"Delay": 1, "MaxAttempts": 30})
    client.put_record(StreamName="kept", Data=b"before", PartitionKey="key")
    kinesis.kill()
    kinesis.restart()
    client.put_record(StreamName="kept", Data=b"after", PartitionKey="key")
    (shard,) = client.list_shards(StreamName="kept")["Shards"]
    iterator = client.get_shard_iterator(StreamName="kept", ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON")[
        "ShardIterator"
    ]
    assert [record["Data"] for record in client.get_records(ShardIterator=iterator)["Records"]] == [b"before", b"after"]


# ----------------------------------------------------------------------------------------------------------- Cassandra


def test_cassandra_keeps_rows_when_it_is_killed(cassandra: Cassandra) -> None:
    with cassandra_session(cassandra) as session:
        session.execute("CREATE KEYSPACE tests WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
        session.execute("CREATE TABLE tests.kept (name text PRIMARY KEY, number int)")
        session.execute("INSERT INTO tests.kept (name, number) VALUES ('before', 1)")
    cassandra.kill()
    cassandra.restart()
    with cassandra_session(cassandra) as session:
        session.execute("INSERT INTO tests.kept (name, number) VALUES ('after', 2)")
        rows = session.execute("SELECT name, number FROM tests.kept")
        assert sorted(tuple(row) for row in rows) == [("after", 2), ("before", 1)]


@contextmanager
def cassandra_session(server: Cassandra) -> Iterator[Any]:
    from cassandra.cluster import Cluster

    with Cluster(["127.0.0.1"], port=server.port, connect_timeout=30, control_connection_timeout=30) as cluster:
        session = cluster.connect()
        session.default_timeout = 30
        yield session


# --------------------------------------------------------------------------------------------------- files and objects


def test_seaweedfs_keeps_objects_when_it_is_killed(seaweedfs: SeaweedFs) -> None:
    from obstore.store import from_url

    store = from_url(f"s3://{BUCKET}")
    store.put("kept/before", b"before")
    seaweedfs.kill()
    seaweedfs.restart()
    store.put("kept/after", b"after")
    assert [bytes(store.get(f"kept/{name}").bytes()) for name in ("before", "after")] == [b"before", b"after"]


def test_azurite_keeps_blobs_when_it_is_killed(azurite: Azurite) -> None:
    from obstore.store import from_url

    store = from_url(f"az://{CONTAINER}")
    store.put("kept/before", b"before")
    azurite.kill()
    azurite.restart()
    store.put("kept/after", b"after")
    assert [bytes(store.get(f"kept/{name}").bytes()) for name in ("before", "after")] == [b"before", b"after"]


@pytest.mark.skipif(os.environ.get("CUTWATER_TRIALS") != "all", reason="slow to start: in make test-connectors")
def test_hdfs_keeps_files_when_it_is_killed(hdfs: Hdfs) -> None:
    from hdfs_native import Client

    client = Client(hdfs.url)
    with client.create("/before") as file:
        file.write(b"before")
        file.hsync()
    hdfs.kill()
    hdfs.restart()
    with client.create("/after") as file:
        file.write(b"after")
    assert [client.read(path).read() for path in ("/before", "/after")] == [b"before", b"after"]


# --------------------------------------------------------------------------------------------------- beginning and end


def test_nothing_is_left_of_a_server_that_was_stopped(redis: Redis) -> None:
    server = Redis()
    server.start()
    processes, folder = server.processes, server.folder
    server.stop()
    assert (processes & guard.families(processes), folder.exists()) == (set(), False)


@pytest.mark.parametrize("then", ["pass", "server.pause()"])
def test_nothing_is_left_of_a_server_whose_tests_were_killed(postgres: Postgres, then: str) -> None:
    """PostgreSQL, because its processes leave the group of the first one; paused, it could not even end by itself."""
    program = f"""
from servers.postgres import Postgres
server = Postgres()
server.start()
{then}
print(server.folder, *server.processes, flush=True)
input()
"""
    command = [sys.executable, "-c", program]
    paths = os.pathsep.join([str(PROJECT), *sys.path])
    with subprocess.Popen(
        command, env={**os.environ, "PYTHONPATH": paths}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as tests:
        assert tests.stdout is not None
        folder, *processes = tests.stdout.readline().split()
        tests.send_signal(signal.SIGKILL)
    until(lambda: not guard.families(map(int, processes)) and not Path(folder).exists())


def test_a_server_that_fails_to_start_shows_the_end_of_its_log() -> None:
    class Broken(Server):
        name = "broken"
        packages = ()
        how_to_connect = ""

        def commands(self) -> list[Command]:
            return [Command(["sh", "-c", "echo no such option; exit 3"])]

    with pytest.raises(ServerFailed) as caught:
        Broken().start()
    assert str(caught.value) == (
        "broken ended with code 3 while it was starting\n  detail: the end of its log:\nno such option"
    )

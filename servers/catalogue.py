"""Which servers are there, by name, and what else do tests need installed?"""

from __future__ import annotations

from servers.azurite import Azurite
from servers.cassandra import Cassandra
from servers.chromium import Chromium
from servers.elasticsearch import Elasticsearch
from servers.hdfs import Hdfs
from servers.kafka import Kafka
from servers.kinesis import Kinesis
from servers.mariadb import MariaDB
from servers.nats import Nats
from servers.packages import Installable
from servers.postgres import Postgres
from servers.process import Server
from servers.prometheus import Prometheus
from servers.rabbitmq import RabbitMQ
from servers.redis import Redis
from servers.registry import SchemaRegistry
from servers.seaweedfs import SeaweedFs

SERVERS: dict[str, type[Server]] = {
    server.name: server
    for server in (
        Kafka,
        SchemaRegistry,
        Postgres,
        Redis,
        RabbitMQ,
        Nats,
        MariaDB,
        Kinesis,
        Cassandra,
        SeaweedFs,
        Azurite,
        Hdfs,
        Prometheus,
        Elasticsearch,
    )
}

#: Servers, and a browser.
INSTALLABLE: dict[str, type[Installable]] = {**SERVERS, Chromium.name: Chromium}

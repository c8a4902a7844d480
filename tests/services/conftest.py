"""Real servers on free loopback ports: each starts when a test first asks for it, and ends with the tests.

When a server can't be installed, its tests are skipped with the reason; with CUTWATER_REQUIRE_SERVERS=1 they fail.
Those of an opt-in server run only when CUTWATER_OPT_IN names it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

# As `python -m servers` does, in the folder of the project.
sys.path.insert(0, str(Path(__file__).parents[2]))

from servers.azurite import Azurite
from servers.cassandra import Cassandra
from servers.catalogue import SERVERS
from servers.elasticsearch import Elasticsearch
from servers.hdfs import Hdfs
from servers.install import reason_why_missing
from servers.kafka import Kafka
from servers.kinesis import Kinesis
from servers.mariadb import MariaDB
from servers.nats import Nats
from servers.postgres import Postgres
from servers.process import Server
from servers.prometheus import Prometheus
from servers.rabbitmq import RabbitMQ
from servers.redis import Redis
from servers.registry import SchemaRegistry
from servers.seaweedfs import SeaweedFs

from cutwater.connectors import file_system
from cutwater.testing.connectors import Fault

MISSING = pytest.StashKey[dict[str, str]]()
AnyServer = TypeVar("AnyServer", bound=Server)


@pytest.fixture(scope="session")
def kafka(pytestconfig: pytest.Config) -> Iterator[Kafka]:
    with running(Kafka, pytestconfig) as server:
        yield server


@pytest.fixture(scope="session")
def registry(pytestconfig: pytest.Config) -> Iterator[SchemaRegistry]:
    with running(SchemaRegistry, pytestconfig) as server:
        yield server


@pytest.fixture(scope="session")
def postgres(pytestconfig: pytest.Config) -> Iterator[Postgres]:
    with running(Postgres, pytestconfig) as server:
        yield server


@pytest.fixture(scope="session")
def prometheus(pytestconfig: pytest.Config) -> Iterator[Prometheus]:
    with running(Prometheus, pytestconfig) as server:
        yield server


@pytest.fixture(scope="session")
def redis(pytestconfig: pytest.Config) -> Iterator[Redis]:
    with running(Redis, pytestconfig) as server:
        yield server


@pytest.fixture(scope="session")
def rabbitmq(pytestconfig: pytest.Config) -> Iterator[RabbitMQ]:
    with running(RabbitMQ, pytestconfig) as server:
        yield server


@pytest.fixture(scope="session")
def nats(pytestconfig: pytest.Config) -> Iterator[Nats]:
    with running(Nats, pytestconfig) as server:
        yield server


@pytest.fixture(scope="session")
def mariadb(pytestconfig: pytest.Config) -> Iterator[MariaDB]:
    with running(MariaDB, pytestconfig) as server:
        yield server


@pytest.fixture(scope="session")
def kinesis(pytestconfig: pytest.Config) -> Iterator[Kinesis]:
    with running(Kinesis, pytestconfig) as server:
        yield server


@pytest.fixture(scope="session")
def cassandra(pytestconfig: pytest.Config) -> Iterator[Cassandra]:
    with running(Cassandra, pytestconfig) as server:
        yield server


@pytest.fixture(scope="session")
def hdfs(pytestconfig: pytest.Config) -> Iterator[Hdfs]:
    with running(Hdfs, pytestconfig) as server:
        yield server


@pytest.fixture(scope="session")
def running_seaweedfs(pytestconfig: pytest.Config) -> Iterator[SeaweedFs]:
    with running(SeaweedFs, pytestconfig) as server:
        yield server


@pytest.fixture(scope="module")
def seaweedfs(running_seaweedfs: SeaweedFs) -> Iterator[SeaweedFs]:
    """For one module the environment says where it is, to this process and those it starts."""
    with variables_set(running_seaweedfs.environment):
        yield running_seaweedfs


@pytest.fixture(scope="session")
def running_azurite(pytestconfig: pytest.Config) -> Iterator[Azurite]:
    with running(Azurite, pytestconfig) as server:
        yield server


@pytest.fixture(scope="module")
def azurite(running_azurite: Azurite) -> Iterator[Azurite]:
    """As `seaweedfs`."""
    with variables_set(running_azurite.environment):
        yield running_azurite


@contextmanager
def variables_set(variables: Mapping[str, str]) -> Iterator[None]:
    """Object stores are opened anew: they have the variables from when they were opened."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    file_system._opened.cache_clear()
    try:
        yield
    finally:
        file_system._opened.cache_clear()
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@pytest.fixture(scope="session")
def elasticsearch(pytestconfig: pytest.Config) -> Iterator[Elasticsearch]:
    with running(Elasticsearch, pytestconfig) as server:
        yield server


@contextmanager
def running(server: type[AnyServer], config: pytest.Config) -> Iterator[AnyServer]:
    reason = reason_why_missing(server)
    if reason is not None:
        config.stash.setdefault(MISSING, {})[server.name] = reason
        if os.environ.get("CUTWATER_REQUIRE_SERVERS") == "1":
            pytest.fail(f"no {server.name}: {reason}", pytrace=False)
        pytest.skip(f"no {server.name}: {reason}")
    with server() as started:
        yield started


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    """The last line says which servers were missing, below pytest's own summary. A worker tells the one that prints."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["missing"] = session.config.stash.get(MISSING, {})
    yield
    missing = session.config.stash.get(MISSING, {})
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if missing and reporter is not None:
        names = ", ".join(f"{name} ({reason})" for name, reason in missing.items())
        reporter.write_line(f"servers that could not be had: {names}")


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """A worker of xdist has ended."""
    node.config.stash.setdefault(MISSING, {}).update(getattr(node, "workeroutput", {}).get("missing", {}))


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    """Six cores: up to four slots, one that is replaced, and one more."""
    from cutwater.deploy.session import embedded_session

    session = embedded_session(6)
    yield session
    session.stop()


#: What strikes in each run of the tests; the kit has more, for CUTWATER_TRIALS=all.
USUAL_FAULTS = (Fault.SLOTS_KILLED, Fault.SERVER_KILLED)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of all tests that know faults, also those of the kit itself."""
    left_out = [item for item in items if _is_not_asked_for(item)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]
    for item in items:
        if _fault_of(item) not in (None, *USUAL_FAULTS):
            item.add_marker("trials")


def _is_not_asked_for(item: pytest.Item) -> bool:
    """Tests of an opt-in server run when CUTWATER_OPT_IN names it."""
    asked_for = os.environ.get("CUTWATER_OPT_IN", "").split(",")
    fixtures = getattr(item, "fixturenames", ())
    return any(server.opt_in and name in fixtures and name not in asked_for for name, server in SERVERS.items())


def _fault_of(item: pytest.Item) -> Fault | None:
    """What a trial of the connectors' kit does; None: the test is none."""
    given = getattr(item, "callspec", None)
    return None if given is None else given.params.get("fault")

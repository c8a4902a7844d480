"""How is Cassandra reached, and what do its refusals mean?"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from cutwater.connectors.bases.extras import client
from cutwater.connectors.failures import PeerError
from cutwater.errors import ConfigurationError, CutwaterError, SchemaError

CONNECT_TIMEOUT_SECONDS = 10


@dataclass(frozen=True, slots=True)
class Table:
    """A table, and where it is. Passwords are never shown."""

    hosts: tuple[str, ...]
    port: int
    keyspace: str
    name: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    #: Of `cassandra.cluster.Cluster`.
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        return f"{self.keyspace}.{self.name}"

    def open(self) -> tuple[Any, Any]:
        """A cluster, which must be shut down, and a session of the keyspace."""
        driver = client("cassandra.cluster", extra="cassandra")
        # What it would say, we say in one line; who has configured logging sees it all the same.
        logging.getLogger("cassandra").addHandler(logging.NullHandler())
        options: dict[str, Any] = {"connect_timeout": CONNECT_TIMEOUT_SECONDS, **self.options}
        if self.user is not None:
            provider = client("cassandra.auth", extra="cassandra").PlainTextAuthProvider
            options["auth_provider"] = provider(self.user, self.password)
        with self.telling():
            cluster = driver.Cluster(self.hosts, port=self.port, **options)
            try:
                return cluster, cluster.connect(self.keyspace)
            except BaseException:
                cluster.shutdown()
                raise

    def check(self, columns: Sequence[str] | None) -> None:
        """Raises a clear error unless records with these columns (None: unknown) can be written again and again."""
        cluster, _ = self.open()
        try:
            tables = cluster.metadata.keyspaces[self.keyspace].tables
            if self.name not in tables:
                raise ConfigurationError(f"Cassandra has no table {self}", hint="correct the name, or create it")
            table = tables[self.name]
        finally:
            cluster.shutdown()
        if any(column.cql_type == "counter" for column in table.columns.values()):
            raise ConfigurationError(
                f"table {self} has counters", detail="what is written to them again counts again", hint="use a number"
            )
        if columns is not None:
            key = [column.name for column in table.primary_key]
            self._refuse([name for name in columns if name not in table.columns], "which it doesn't have")
            self._refuse([name for name in key if name not in columns], "which is in its key, but not in columns=")

    def _refuse(self, columns: Sequence[str], why: str) -> None:
        if columns:
            raise ConfigurationError(f"table {self} can't be written", detail=f'column "{columns[0]}", {why}')

    @contextmanager
    def telling(self) -> Iterator[None]:
        """What the driver raises inside, in our words."""
        try:
            yield
        except CutwaterError:
            raise
        except Exception as error:
            raise self.translated(error) from error

    def translated(self, error: Exception) -> Exception:
        errors = client("cassandra", extra="cassandra")
        cluster = client("cassandra.cluster", extra="cassandra")
        connection = client("cassandra.connection", extra="cassandra")
        if isinstance(error, errors.AuthenticationFailed | errors.Unauthorized) or "AuthenticationFailed" in str(error):
            return ConfigurationError(f'Cassandra refuses user "{self.user}"', detail=str(error))
        if isinstance(error, errors.InvalidRequest):
            hint = "create it" if "does not exist" in str(error) else ""
            return ConfigurationError(f"Cassandra refuses to write {self}", detail=str(error), hint=hint)
        gone = (cluster.NoHostAvailable, connection.ConnectionException, errors.OperationTimedOut, OSError)
        if isinstance(error, (*gone, errors.RequestExecutionException)):
            return PeerError(
                f"Cassandra at {', '.join(self.hosts)} can't be reached, or can't answer", detail=str(error)
            )
        if isinstance(error, TypeError | ValueError | KeyError):
            return SchemaError(f"a record doesn't fit the columns of {self}", detail=str(error))
        return error

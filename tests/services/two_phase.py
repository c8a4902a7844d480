"""PostgreSQL and MariaDB as the tests of their sinks see them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import psycopg
import pymysql
from servers.mariadb import MariaDB
from servers.postgres import Postgres
from servers.process import Server

import cutwater as cw
from cutwater.connectors.contract import Sink


class Subject(ABC):
    """A server with a table `numbers (id bigint, name text)`."""

    def __init__(self, server: Server) -> None:
        self.server = server

    @abstractmethod
    def sink(self, table: str = "numbers", **options: Any) -> Sink: ...

    @abstractmethod
    def query(self, statement: str) -> list[tuple[Any, ...]]: ...

    @abstractmethod
    def prepared(self) -> int:
        """How many transactions are prepared."""

    @abstractmethod
    def roll_back_all(self) -> None:
        """What a test that failed left behind would make the next one wait."""

    def reset(self) -> None:
        self.roll_back_all()
        self.query("DROP TABLE IF EXISTS numbers")
        self.query("DROP TABLE IF EXISTS cutwater_epochs")
        self.query("CREATE TABLE numbers (id bigint, name text)")

    def ids(self) -> list[int]:
        return [row[0] for row in self.query("SELECT id FROM numbers ORDER BY id")]


class PostgresSubject(Subject):
    server: Postgres

    def sink(self, table: str = "numbers", **options: Any) -> Sink:
        return cw.sinks.postgres(self.server.url, table, **options)

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.server.url, autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def prepared(self) -> int:
        return len(self.query("SELECT gid FROM pg_prepared_xacts"))

    def roll_back_all(self) -> None:
        for (name,) in self.query("SELECT gid FROM pg_prepared_xacts"):
            self.query(f"ROLLBACK PREPARED '{name}'")


class MariaSubject(Subject):
    server: MariaDB

    def sink(self, table: str = "numbers", **options: Any) -> Sink:
        return cw.sinks.mariadb(self.server.how_to_connect, table, **options)

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        server = self.server
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
            cursor.execute(statement)
            return list(cursor.fetchall())

    def prepared(self) -> int:
        return len(self.query("XA RECOVER"))

    def roll_back_all(self) -> None:
        for _, first_bytes, _, name in self.query("XA RECOVER"):
            text = name.decode() if isinstance(name, bytes) else name
            self.query(f"XA ROLLBACK '{text[:first_bytes]}','{text[first_bytes:]}'")

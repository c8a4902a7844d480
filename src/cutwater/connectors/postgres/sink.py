"""How do records become rows of a table of PostgreSQL, as often as was promised?"""

from __future__ import annotations

from collections.abc import Sequence

from cutwater.connectors.bases.sql_sink import How, sql_sink
from cutwater.connectors.bases.two_phase import EPOCHS_TABLE
from cutwater.connectors.contract import Sink
from cutwater.connectors.postgres.client import title_of
from cutwater.connectors.postgres.target import PostgresServer


def postgres(
    dsn: str,
    table: str,
    *,
    delivery: How = "exactly_once",
    key: Sequence[str] = (),
    columns: Sequence[str] | None = None,
    epochs_table: str = EPOCHS_TABLE,
) -> Sink:
    """A sink of rows in a table of PostgreSQL (extra `postgres`).

    Records are dicts, named tuples, dataclasses, or rows of typed batches; plain tuples if `columns` are named. A dict
    or list as a value becomes `jsonb` or an array.

    `dsn`: what libpq takes, e.g. `postgresql://user:password@host/database?sslmode=verify-full&sslrootcert=ca.pem`.
    `table`: `orders` or `shop.orders`; it must be there.
    `columns`: those to write; left out, those of the first record.

    `delivery`:
    `"exactly_once"`: rows are written with COPY into a transaction that is prepared at each checkpoint (PREPARE
    TRANSACTION) and committed when the checkpoint is complete. The server needs `max_prepared_transactions` > 0. What
    is done is recorded in `epochs_table`, which is created if it isn't there; a row per task and attempt stays.
    `"upsert"`: rows with the same `key` are replaced (INSERT … ON CONFLICT), so that writing them again does no harm:
    exactly once in effect. Rows are visible before their checkpoint is complete. Records of one key must come from one
    task (`key_by`), else the last one isn't defined.
    `"at_least_once"`: rows are inserted, and again after a failure.
    """
    server = PostgresServer(dsn, title_of(dsn))
    return sql_sink(server, table, delivery=delivery, key=key, columns=columns, epochs_table=epochs_table)

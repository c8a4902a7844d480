"""How do records become rows of a table of MariaDB, as often as was promised?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cutwater.connectors.bases.sql_sink import How, sql_sink
from cutwater.connectors.bases.two_phase import EPOCHS_TABLE
from cutwater.connectors.contract import Sink
from cutwater.connectors.mariadb.client import pymysql, settings_of, title_of
from cutwater.connectors.mariadb.target import MariaServer
from cutwater.connectors.settings import check_text


def mariadb(
    url: str,
    table: str,
    *,
    delivery: How = "exactly_once",
    key: Sequence[str] = (),
    columns: Sequence[str] | None = None,
    epochs_table: str = EPOCHS_TABLE,
    options: Mapping[str, Any] | None = None,
) -> Sink:
    """A sink of rows in a table of MariaDB 10.5 or newer (extra `mariadb`).

    Records are dicts, named tuples, dataclasses, or rows of typed batches; plain tuples if `columns` are named. A dict
    or list as a value is written as JSON, a moment with a time zone in UTC.

    `url`: `mysql://user:password@host:3306/database`. `options` go to PyMySQL as they are, e.g.
    `{"ssl_ca": "ca.pem", "ssl_verify_cert": True}`.
    `table`: `orders` or `shop.orders`; it must be there.
    `columns`: those to write; left out, those of the first record.

    `delivery`:
    `"exactly_once"`: rows are inserted into an XA transaction that is prepared at each checkpoint and committed when
    the checkpoint is complete. The table must be one of InnoDB. What is done is recorded in `epochs_table`, which is
    created if it isn't there; a row per task and attempt stays.
    `"upsert"`: rows with the same `key` are replaced (INSERT … ON DUPLICATE KEY UPDATE), so that writing them again
    does no harm: exactly once in effect. Rows are visible before their checkpoint is complete. Records of one key
    must come from one task (`key_by`), else the last one isn't defined.
    `"at_least_once"`: rows are inserted, and again after a failure.
    """
    pymysql()
    check_text("url", url)
    settings = settings_of(url, options or {})
    server = MariaServer(settings, title_of(settings))
    return sql_sink(server, table, delivery=delivery, key=key, columns=columns, epochs_table=epochs_table)

"""Every change of a table in PostgreSQL, as a history in files.

PostgreSQL sends its log: each insert, update and delete, in the order of the commits. It doesn't tell what a row was
before an update, unless the table is set to `REPLICA IDENTITY FULL`. The job knows it all the same: what the row of an
item was last is its state. So a line of the history says how many pieces there are now, and how many came or went.

The slot is made before the job: PostgreSQL keeps its log from then on, whether a job runs or not, until a checkpoint
holds the changes. A slot that nobody needs any more must be dropped for the same reason.

Run it: `cutwater run examples/changes_to_files.py` starts a PostgreSQL of its own. To use yours, which needs
`wal_level=logical`, add `--postgres postgresql://user:password@localhost/shop`: it makes a table there.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cutwater as cw


class History:
    """Numbers the changes of each item, and compares it with what it was."""

    def open(self, context: Any) -> None:
        self._version = context.value_state("version", default=0, type=int)
        self._pieces = context.value_state("pieces", default=0, type=int)

    def process(self, change: Any, context: Any) -> Iterator[dict[str, Any]]:
        version = self._version.value() + 1
        pieces = 0 if change.op == "delete" else change.after["pieces"]
        yield {
            "item": context.current_key,
            "version": version,
            "change": change.op,
            "pieces": pieces,
            "moved": pieces - self._pieces.value(),
            "at": change.commit_time.isoformat(),
        }
        self._version.update(version)
        self._pieces.update(pieces)


def item_of(change: Any) -> str:
    row: dict[str, Any] = change.after or change.before
    return str(row["item"])


def build(
    env: cw.Environment, *, postgres: str, table: str, slot: str, output_folder: Path, bounded: bool = False
) -> None:
    # Every change counts here. With a snapshot, rows that were there before the job would come as they are.
    changes = cw.sources.postgres_changes(postgres, tables=(table,), slot=slot, snapshot=False, bounded=bounded)
    (
        env.from_source(changes, uid="changes")
        .filter(lambda change: change.op != "truncate", uid="rows")
        .key_by(item_of)
        .process(History(), uid="history")
        .sink_to(cw.sinks.json_lines(output_folder), uid="out")
    )


# The database.


def create_table(postgres: str, *, table: str, slot: str) -> None:
    from real_servers import query

    query(postgres, f"CREATE TABLE {table} (item text PRIMARY KEY, pieces integer)")
    query(postgres, f"CREATE PUBLICATION {slot} FOR TABLE {table}")
    query(postgres, "SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (slot,))


def apply(postgres: str, table: str, changes: Iterator[tuple[str, str, int]]) -> None:
    """Each in a transaction of its own."""
    import psycopg

    statements = {
        "insert": f"INSERT INTO {table} (item, pieces) VALUES (%(item)s, %(pieces)s)",
        "update": f"UPDATE {table} SET pieces = %(pieces)s WHERE item = %(item)s",
        "delete": f"DELETE FROM {table} WHERE item = %(item)s",
    }
    with psycopg.connect(postgres, autocommit=True) as connection:
        for change, item, pieces in changes:
            connection.execute(statements[change].encode(), {"item": item, "pieces": pieces})


def drop_slot(postgres: str, slot: str) -> None:
    from real_servers import query

    query(postgres, "SELECT pg_drop_replication_slot(%s)", (slot,))
    query(postgres, f"DROP PUBLICATION {slot}")


if __name__ == "__main__":
    from data import stock_changes, workspace
    from real_servers import new_name, servers

    with servers("postgres") as [postgres]:
        table, slot = new_name("stock"), new_name("slot")
        create_table(postgres, table=table, slot=slot)
        apply(postgres, table, stock_changes())

        folders = workspace("changes-to-files")
        env = cw.Environment(parallelism=2, checkpoints=cw.Checkpoints(every="500ms", storage=folders.checkpoints))
        # Bounded: it ends with what is committed now. Without that it would wait for the next change.
        build(env, postgres=postgres, table=table, slot=slot, output_folder=folders.output, bounded=True)
        env.execute("changes to files", require="exactly_once")
        drop_slot(postgres, slot)
        print(f"the history of the table {table} is in {folders.output}")

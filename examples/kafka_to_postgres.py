"""Orders from Kafka, the turnover of each shop and minute into PostgreSQL: exactly once from end to end.

The offsets in Kafka are part of every snapshot, and so are the open minutes. The rows of a checkpoint are written in a
transaction that is prepared with it and committed when it is complete. So the table needs no key: no row comes twice.

Run it: `cutwater run examples/kafka_to_postgres.py` starts a Kafka and a PostgreSQL of its own. To use yours, add
`--kafka localhost:9092 --postgres postgresql://user:password@localhost/shop`: it makes a topic and a table there.
"""

from __future__ import annotations

import pyarrow as pa

import cutwater as cw

ORDER = pa.schema([("shop", pa.string()), ("cents", pa.int64()), ("time_ms", pa.int64())])
COLUMNS = "shop text, window_start timestamptz, window_end timestamptz, orders bigint, cents bigint"


def build(env: cw.Environment, *, kafka: str, topic: str, postgres: str, table: str, bounded: bool = False) -> None:
    orders = env.from_source(cw.sources.kafka(kafka, topic, schema=ORDER, bounded=bounded), uid="orders")
    (
        orders.assign_timestamps("time_ms", cw.watermarks.bounded("5s"), unit="ms")
        .key_by("shop")
        .window(cw.tumbling("1min"))
        .aggregate(orders=cw.agg.count(), cents=cw.agg.sum("cents"), uid="minutes")
        .sink_to(cw.sinks.postgres(postgres, table), uid="table")
    )


if __name__ == "__main__":
    from data import shop_orders, workspace
    from real_servers import create_topic, new_name, query, send, servers

    with servers("kafka", "postgres") as (kafka, postgres):
        topic, table = new_name("orders"), new_name("turnover")
        create_topic(kafka, topic)
        send(kafka, topic, shop_orders())
        query(postgres, f"CREATE TABLE {table} ({COLUMNS})")

        folders = workspace("kafka-to-postgres")
        env = cw.Environment(parallelism=2, checkpoints=cw.Checkpoints(every="500ms", storage=folders.checkpoints))
        # Bounded: it ends with the last order. Without that it would wait for the next one.
        build(env, kafka=kafka, topic=topic, postgres=postgres, table=table, bounded=True)
        print(env.explain("kafka to postgres"))
        env.execute("kafka to postgres", require="exactly_once")

        print(f"\nshop     minutes  orders      cents   (topic {topic}, table {table})")
        for row in query(
            postgres, f"SELECT shop, count(*), sum(orders), sum(cents) FROM {table} GROUP BY 1 ORDER BY 1"
        ):
            print("{:<8} {:>7} {:>7} {:>10}".format(*row))

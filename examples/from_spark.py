"""Spark reads and filters, the stream goes on with Arrow: a DataFrame in, Parquet out.

Spark computes the query in the background; each finished partition becomes a part of the stream at once. From there on
`map_batches` sees Arrow record batches, with no Python object per row.

Run it: `cutwater run examples/from_spark.py`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

import cutwater as cw

DISCOUNT_FROM_CENTS = 20_000


def with_discount(orders: pa.RecordBatch) -> pa.RecordBatch:
    """Ten percent off large orders, in whole cents."""
    cents = orders.column("cents")
    large = pc.greater_equal(cents, DISCOUNT_FROM_CENTS)
    discount = pc.if_else(large, pc.divide(cents, 10), 0)
    return orders.append_column("discount_cents", discount)


def build(env: cw.Environment, input_folder: Path, output_folder: Path) -> None:
    spark = SparkSession.builder.getOrCreate()
    orders = (
        spark.read.parquet(str(input_folder / "orders"))
        .withColumn("region", f.split("customer", "-")[0])
        .where(f.col("region") != "west")
    )
    (
        env.from_dataframe(orders, uid="orders")
        .map_batches(with_discount, uid="discount")
        .sink_to(cw.sinks.parquet(output_folder), uid="out")
    )


if __name__ == "__main__":
    from data import workspace, write_orders_as_parquet

    folders = workspace("from-spark", write_orders_as_parquet)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else Spark's workers run the first python3 on the PATH
    spark = SparkSession.builder.master("local[4]").appName("from spark").getOrCreate()
    env = cw.Environment(
        spark=spark, parallelism=2, checkpoints=cw.Checkpoints(every="500ms", storage=folders.checkpoints)
    )
    build(env, folders.input, folders.output)
    env.execute("from spark", require="exactly_once")
    spark.read.parquet(str(folders.output)).groupBy("region").sum("cents", "discount_cents").orderBy("region").show()

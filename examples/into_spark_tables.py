"""A stream into a table that Spark writes: `for_each_epoch` gets the rows of each checkpoint as a DataFrame.

The table is Parquet here, a partition for each epoch; Delta, Iceberg or JDBC work the same way. After a failure an
epoch may be given again, with the same rows under the same number. The function overwrites its partition then, and so
every order is in the table exactly once.

Run it: `cutwater run examples/into_spark_tables.py`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import cutwater as cw


def into_table(folder: Path) -> Callable[[DataFrame, int], None]:
    """A function for `for_each_epoch`: it runs in the driver, and may use whatever Spark can do."""

    def write(orders: DataFrame, epoch: int) -> None:
        regions = orders.withColumn("region", f.split("customer", "-")[0])
        regions.write.mode("overwrite").parquet(str(folder / f"epoch={epoch}"))

    return write


def build(env: cw.Environment, input_folder: Path, output_folder: Path) -> None:
    (
        env.from_source(cw.sources.files(input_folder / "orders", format="parquet"), uid="orders")
        .filter(cw.col("cents") >= 1_000)
        .sink_to(cw.sinks.for_each_epoch(into_table(output_folder)), uid="table")
    )


if __name__ == "__main__":
    from data import workspace, write_orders_as_parquet

    folders = workspace("into-spark-tables", write_orders_as_parquet)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else Spark's workers run the first python3 on the PATH
    spark = SparkSession.builder.master("local[4]").appName("into spark tables").getOrCreate()
    env = cw.Environment(
        spark=spark, parallelism=2, checkpoints=cw.Checkpoints(every="500ms", storage=folders.checkpoints)
    )
    build(env, folders.input, folders.output)
    env.execute("into spark tables", require="exactly_once")
    spark.read.parquet(str(folders.output)).groupBy("region").sum("cents").orderBy("region").show()

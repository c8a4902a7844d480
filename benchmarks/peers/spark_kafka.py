"""Counts messages of a topic per key into another topic with Spark Structured Streaming and its Kafka connector.

Its Kafka sink is at least once: a batch that fails half-way is written again. A batch ends with a checkpoint, so its
size is limited to what takes about a second.
"""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 — the name that every user of Spark knows

from benchmarks.connectors.counting_contract import Count, count_from_arguments

STATE_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
BATCH_MESSAGES_MAX = 500_000


def session(given: Count) -> SparkSession:
    options = {
        "spark.jars": ",".join(given.jars),
        "spark.driver.memory": "8g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": given.parallelism,
        "spark.ui.enabled": "false",
        "spark.sql.streaming.stateStore.providerClass": STATE_STORE,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.log.level": "ERROR",
    }
    builder = SparkSession.builder.master(f"local[{given.parallelism}]")
    for name, value in options.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def main(given: Count) -> None:
    spark = session(given)
    messages = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", given.servers)
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", given.source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", BATCH_MESSAGES_MAX)
        .load()
    )
    parsed = messages.select(F.from_json(F.col("value").cast("string"), "key STRING").alias("message"))
    counts = parsed.groupBy("message.key").agg(F.count("*").alias("n"))
    written = counts.select("key", F.to_json(F.struct("key", "n")).alias("value"))
    query = (
        written.writeStream.format("kafka")
        .outputMode("update")
        .option("kafka.bootstrap.servers", given.servers)
        .option("topic", given.target)
        .option("checkpointLocation", given.scratch)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main(count_from_arguments())

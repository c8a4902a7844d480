"""What are operations of PySpark, PyFlink and pandas called here?

>>> stream.groupBy("word")
cutwater.errors.UnknownOperationError: a DataStream has no groupBy
  hint:   did you mean key_by("word")?
"""

from __future__ import annotations

import re
from difflib import get_close_matches

from cutwater.errors import UnknownOperationError

_KEY_FIRST = 'key_by first: stream.key_by("column").{0}'
_AGGREGATES = ("count", "sum", "min", "max", "mean", "reduce", "aggregate", "window")

#: By the name of the class; what begins with an operation of the class stands behind "did you mean".
_MEANT: dict[str, dict[str, str]] = {
    "DataStream": {
        **dict.fromkeys(("groupBy", "group_by", "groupby", "partition_by", "partitionBy"), 'key_by("column")'),
        "where": 'filter(cw.col("column") > 0), or filter(lambda record: …)',
        "query": 'filter(cw.col("column") > 0), or filter(lambda record: …)',
        **dict.fromkeys(("withColumn", "with_column", "assign"), 'with_columns(total=cw.col("a") * 2)'),
        **dict.fromkeys(("withColumnRenamed", "rename"), 'select("kept", new=cw.col("old"))'),
        **dict.fromkeys(("selectExpr", "project"), 'select("a", total=cw.col("a") * 2)'),
        "drop": "select(…) of the columns that stay",
        **dict.fromkeys(("explode", "mapValues"), "flat_map(lambda record: …)"),
        **dict.fromkeys(("mapPartitions", "map_partition"), "map_batches(function)"),
        **dict.fromkeys(("mapInPandas", "mapInArrow", "pipe"), 'map_batches(function, format="pandas")'),
        **dict.fromkeys(("apply", "transform"), "map(function)"),
        **dict.fromkeys(("foreach", "forEach"), "sink_to(cw.sinks.function(function))"),
        "foreachBatch": "sink_to(cw.sinks.for_each_epoch(function))",
        **dict.fromkeys(("writeStream", "write", "add_sink", "addSink", "to"), "sink_to(cw.sinks.parquet(folder))"),
        "to_csv": "sink_to(cw.sinks.csv(folder))",
        **dict.fromkeys(("to_json", "toJSON"), "sink_to(cw.sinks.json_lines(folder))"),
        "to_parquet": "sink_to(cw.sinks.parquet(folder))",
        **dict.fromkeys(("collect", "toLocalIterator"), "execute_and_collect()"),
        **dict.fromkeys(("take", "head", "first"), "limit(10).execute_and_collect(), or show(10)"),
        **dict.fromkeys(("display",), "show(20)"),
        "withWatermark": 'assign_timestamps("time", cw.watermarks.bounded("5s"))',
        "assign_timestamps_and_watermarks": 'assign_timestamps("time", cw.watermarks.bounded("5s"))',
        **dict.fromkeys(("unionAll", "unionByName", "concat", "append"), "union(other)"),
        "merge": _KEY_FIRST.format("join(other.key_by(…), …)"),
        **dict.fromkeys(("repartition", "coalesce", "shuffle", "rescale"), "rebalance()"),
        **dict.fromkeys(("printSchema", "dtypes", "columns"), "schema"),
        **dict.fromkeys(("get_side_output", "getSideOutput"), 'side_output("tag")'),
        **dict.fromkeys(
            ("distinct", "dropDuplicates", "drop_duplicates"),
            "key_by(…).process(…) that remembers what it has seen: examples/deduplicate.py",
        ),
        **dict.fromkeys(
            ("orderBy", "sort", "sort_values"),
            "windows, which have an end: key_by(…).window(…).process(…) can sort the records of each",
        ),
        **dict.fromkeys(("execute", "start", "run"), "env.execute(), once the stream ends in a sink"),
        "submit": "env.submit(), once the stream ends in a sink",
        "explain": "env.explain()",
        **dict.fromkeys(("set_parallelism", "setParallelism"), "the keyword of each operation: map(…, parallelism=4)"),
        "uid": 'the keyword of each operation: map(…, uid="parse")',
        **{name: _KEY_FIRST.format(f"{name}(…)") for name in _AGGREGATES},
        **dict.fromkeys(("agg", "avg"), _KEY_FIRST.format('aggregate(total=cw.agg.sum("price"))')),
    },
    "KeyedStream": {
        "agg": 'aggregate(total=cw.agg.sum("price"))',
        "avg": 'mean("price")',
        **dict.fromkeys(
            ("apply", "applyInPandas", "applyInPandasWithState", "transformWithState", "flat_map_groups"),
            "process(function) with the key's own state",
        ),
        **dict.fromkeys(("timeWindow", "time_window", "groupBy", "windowBy"), 'window(cw.tumbling("10 seconds"))'),
        "count_window": "window(cw.count_window(100))",
        **dict.fromkeys(
            ("map", "flat_map", "filter", "select", "with_columns", "map_batches", "async_map", "assign_timestamps"),
            "the same before key_by: the key belongs to what comes next",
        ),
        **dict.fromkeys(
            ("sink_to", "print", "show", "limit", "execute_and_collect", "to_pandas", "union"),
            "an aggregate before it, such as count(), or the same before key_by",
        ),
    },
    "WindowedStream": {
        "agg": 'aggregate(total=cw.agg.sum("price"))',
        "avg": 'mean("price")',
        **dict.fromkeys(("apply", "foreach"), "process(function)"),
        **dict.fromkeys(("side_output_late_data", "sideOutputLateData"), 'late_output("late")'),
        **dict.fromkeys(("sink_to", "print", "show", "execute_and_collect"), "an aggregate before it, such as count()"),
    },
    "ConnectedStreams": {
        **dict.fromkeys(("map", "flat_map", "flatMap"), "process(an object with map1 and map2)"),
        **dict.fromkeys(("key_by", "keyBy"), "first.key_by(…).connect(second.key_by(…))"),
    },
    "Environment": {
        **dict.fromkeys(("from_elements", "fromElements", "parallelize"), "from_collection([…])"),
        "createDataFrame": "from_pandas(frame), or from_collection([…])",
        **dict.fromkeys(("addSource", "add_source"), "from_source(cw.sources.kafka(…))"),
        **dict.fromkeys(("readStream", "read", "load"), "from_source(cw.sources.files(…)), or from_dataframe(df)"),
        **dict.fromkeys(("readTextFile", "read_text_file", "textFile"), 'from_source(cw.sources.files("folder"))'),
        **dict.fromkeys(("read_csv", "csv"), 'from_source(cw.sources.csv("file.csv"))'),
        **dict.fromkeys(("set_parallelism", "setParallelism"), "the option: cw.Environment(parallelism=4)"),
        **dict.fromkeys(
            ("enable_checkpointing", "enableCheckpointing"),
            'the option: cw.Environment(checkpoints=cw.Checkpoints(every="10 seconds"))',
        ),
        **dict.fromkeys(("execute_async", "executeAsync", "start"), "submit(), which returns at once"),
        **dict.fromkeys(("run", "awaitTermination"), "execute()"),
        **dict.fromkeys(("get_execution_environment", "builder", "getOrCreate"), "cw.Environment()"),
        "sql": "from_dataframe(spark.sql(…))",
    },
}


def unknown_operation(owner: type, name: str) -> AttributeError:
    """What `__getattr__` raises. Python itself asks for names of protocols (`__copy__`, `_repr_html_`, …)."""
    kind = owner.__name__
    if name.startswith("_"):
        return AttributeError(f"'{kind}' object has no attribute '{name}'")
    meant = _MEANT.get(kind, {}).get(name) or _similar(owner, name)
    hint = f"did you mean {meant}?" if meant else f"it has {', '.join(_operations(owner))}"
    article = "an" if kind[0] in "AEIOU" else "a"
    return UnknownOperationError(f"{article} {kind} has no {name}", hint=hint)


def _similar(owner: type, name: str) -> str:
    operations = _operations(owner)
    snake = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    if snake in operations:
        return snake
    close = get_close_matches(snake, operations, n=1, cutoff=0.75)
    return close[0] if close else ""


def _operations(owner: type) -> list[str]:
    return [name for name in dir(owner) if not name.startswith("_")]

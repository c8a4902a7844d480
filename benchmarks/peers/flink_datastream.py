"""PyFlink's DataStream API: the functions are Python's.

Both of its ways to run them are measured, as short trials were too close to choose: worker processes beside the Java
process, or `threads` inside it. Bundles have 100,000 records, which was several times faster than 1,000 in a trial. A
result for each record is all that this API has. W1 is a `reduce`, W4 a `KeyedProcessFunction` with a `ValueState`.
"""

from __future__ import annotations

import os
import sysconfig
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pyflink.common import Types, WatermarkStrategy
from pyflink.datastream import DataStream, StreamExecutionEnvironment
from pyflink.datastream.connectors import Sink
from pyflink.datastream.connectors.file_system import FileSource
from pyflink.datastream.formats.csv import CsvReaderFormat, CsvSchema
from pyflink.datastream.functions import KeyedProcessFunction, MapFunction, RuntimeContext
from pyflink.datastream.state import ValueStateDescriptor
from pyflink.java_gateway import get_gateway
from pyflink.table import DataTypes

from benchmarks.contract import Result, Settings, counts_answer, say, settings_from_arguments
from benchmarks.peers.flink import JobWatch, configuration, free_port

BUNDLE_RECORDS = 100_000
COUNTED = Types.TUPLE([Types.STRING(), Types.LONG()])


class ToPair(MapFunction):  # type: ignore[misc]
    """Leaves a file when its worker is ready, which is later than when Flink calls the task running."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def open(self, runtime_context: RuntimeContext) -> None:
        Path(self._folder, f"ready-{os.getpid()}").touch()

    def map(self, value: Any) -> tuple[str, int]:
        return value[1], 1


class Count(KeyedProcessFunction):  # type: ignore[misc]
    def open(self, runtime_context: RuntimeContext) -> None:
        self._count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[tuple[str, int]]:
        count = (self._count.value() or 0) + 1
        self._count.update(count)
        yield value[0], count


def results(environment: StreamExecutionEnvironment, given: Settings, ready: str) -> DataStream:
    columns = CsvSchema.builder().add_number_column("event_time", DataTypes.BIGINT()).add_string_column("key")
    schema = columns.add_number_column("value", DataTypes.BIGINT()).build()
    files = FileSource.for_record_stream_format(CsvReaderFormat.for_schema(schema), f"file://{given.files}").build()
    rows = environment.from_source(files, WatermarkStrategy.no_watermarks(), "rows")
    keyed = rows.map(ToPair(ready), output_type=COUNTED).key_by(lambda pair: pair[0], key_type=Types.STRING())
    if given.workload == "W4":
        return keyed.process(Count(), output_type=COUNTED)
    return keyed.reduce(lambda left, right: (left[0], left[1] + right[1]))


def measure(given: Settings) -> Result:
    rest_port = free_port()
    mode = "thread" if given.variant.endswith("threads") else "process"
    more = {"python.execution-mode": mode, "python.fn-execution.bundle.size": str(BUNDLE_RECORDS)}
    options = configuration(given, rest_port=rest_port, more=more)
    environment = StreamExecutionEnvironment.get_execution_environment(options)
    ready = Path(given.scratch, "workers")
    ready.mkdir()
    stream = results(environment, given, str(ready))
    if given.verify:
        began = time.time()
        counts: dict[str, int] = {}
        for key, count in stream.execute_and_collect():
            counts[key] = max(counts.get(key, 0), count)
        answer = counts_answer(counts.values())
        return Result(time.time() - began, given.rows, version=version("apache-flink"), answer=answer)
    discarding = get_gateway().jvm.org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink()
    stream.sink_to(Sink(discarding))
    watch = JobWatch(rest_port)
    environment.execute("count")
    ended_at = time.time()
    facts = watch.facts()
    began = max(file.stat().st_mtime for file in ready.iterdir())
    return Result(ended_at - began, given.rows, ended_at=ended_at, version=version("apache-flink"), facts=facts)


if __name__ == "__main__":
    # Else the functions run in the submitting process, all on one core.
    os.environ["_python_worker_execution_mode"] = "process"  # noqa: SIM112 — Flink's own spelling
    # The interpreter inside the Java process doesn't know of virtual environments.
    os.environ["PYTHONPATH"] = os.pathsep.join([sysconfig.get_path("purelib"), str(Path.cwd())])
    say(measure(settings_from_arguments()))

"""Files on S3 under real jobs whose slots, driver and server are killed."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from servers.process import Server
from servers.seaweedfs import BUCKET, SeaweedFs

import cutwater as cw
from cutwater.connectors.contract import Sink, Source
from cutwater.connectors.file_system import FileSystem, file_system_of
from cutwater.graph.guarantees import Guarantee
from cutwater.testing.connectors import ALL, Fault, SinkSubject, SourceSubject, check_sink, check_source

RECORDS = 20_000
FILES = 6
COLUMNS = pa.schema([("n", pa.int64())])
FAULTS = [fault for fault in ALL if fault is not Fault.POISON]


@pytest.fixture(scope="module")
def spark(seaweedfs: SeaweedFs) -> Iterator[Any]:
    """Its workers know where the server is, as an administrator would tell them."""
    from cutwater.deploy.session import embedded_session

    variables = {f"spark.executorEnv.{name}": value for name, value in seaweedfs.environment.items()}
    session = embedded_session(6, settings=variables)
    yield session
    session.stop()


class JsonWritten(SinkSubject):
    def __init__(self, server: Server) -> None:
        self.server = server
        self.clear()

    def clear(self) -> None:
        self.folder = f"s3://{BUCKET}/out-{uuid.uuid4().hex}"

    @property
    def files(self) -> FileSystem:
        return file_system_of(self.folder)

    def sink(self) -> Sink:
        return cw.sinks.json_lines(self.folder, roll_bytes=20_000)

    def received(self) -> Sequence[int]:
        lines = []
        for found in self.files.matching(self.folder):
            with self.files.open(found.path) as file:
                lines += file.readlines()
        return [json.loads(line)["n"] for line in lines]

    def pending(self) -> Sequence[str]:
        return self.files.names(f"{self.folder}/.pending")


class TextRead(SourceSubject):
    def __init__(self, server: SeaweedFs) -> None:
        self.server = server
        self.folder = f"s3://{BUCKET}/nothing-yet"

    def fill(self, numbers: Iterable[int]) -> None:
        self.folder = f"s3://{BUCKET}/in-{uuid.uuid4().hex}"
        everything = list(numbers)
        for index in range(FILES):
            self.put(f"{self.folder}/{index}/part", everything[index::FILES])

    def put(self, path: str, numbers: Sequence[int]) -> None:
        with file_system_of(path).create(f"{path}.txt") as file:
            file.write("".join(f"{number}\n" for number in numbers).encode())

    def source(self) -> Source:
        return cw.sources.files(f"{self.folder}/*/*.txt", split_bytes=10_000)

    @staticmethod
    def number_of(record: Any) -> int:
        return int(record)


class ParquetRead(TextRead):
    def put(self, path: str, numbers: Sequence[int]) -> None:
        with file_system_of(path).create(f"{path}.parquet") as file:
            pq.write_table(pa.table({"n": numbers}, schema=COLUMNS), file, row_group_size=1_000)

    def source(self) -> Source:
        pattern = f"{self.folder}/**/*.parquet"
        return cw.sources.files(pattern, format="parquet", schema=COLUMNS, split_bytes=10_000)

    @staticmethod
    def number_of(record: Any) -> int:
        return int(record.n)


@pytest.mark.parametrize("fault", FAULTS)
def test_files_are_written_exactly_once(spark: Any, seaweedfs: SeaweedFs, fault: Fault) -> None:
    report = check_sink(JsonWritten(seaweedfs), records=RECORDS, faults=[fault], spark=spark)
    print(report)  # noqa: T201 - for people who want to see the table: pytest -s
    assert report.guarantee is Guarantee.EXACTLY_ONCE


@pytest.mark.parametrize("fault", FAULTS)
def test_lines_are_read_exactly_once(spark: Any, seaweedfs: SeaweedFs, fault: Fault) -> None:
    report = check_source(TextRead(seaweedfs), records=RECORDS, faults=[fault], spark=spark)
    print(report)  # noqa: T201
    assert report.guarantee is Guarantee.EXACTLY_ONCE


@pytest.mark.parametrize("fault", [Fault.SLOTS_KILLED])
def test_parquet_is_read_exactly_once(spark: Any, seaweedfs: SeaweedFs, fault: Fault) -> None:
    report = check_source(ParquetRead(seaweedfs), records=RECORDS, faults=[fault], spark=spark)
    print(report)  # noqa: T201
    assert report.guarantee is Guarantee.EXACTLY_ONCE

"""Files on HDFS under real jobs whose slots and nodes are killed."""

from __future__ import annotations

import os
import uuid
from typing import Any

import pytest
from servers.hdfs import Hdfs

from cutwater.graph.guarantees import Guarantee
from cutwater.testing.connectors import Fault, check_sink

from .test_files_kit import JsonWritten

RECORDS = 20_000


class WrittenToHdfs(JsonWritten):
    def clear(self) -> None:
        assert isinstance(self.server, Hdfs)
        self.folder = f"{self.server.url}/out-{uuid.uuid4().hex}"


pytestmark = pytest.mark.skipif(
    os.environ.get("CUTWATER_TRIALS") != "all", reason="two nodes of Java: in make test-connectors"
)


def test_files_are_written_exactly_once_when_slots_are_killed(spark: Any, hdfs: Hdfs) -> None:
    report = check_sink(WrittenToHdfs(hdfs), records=RECORDS, faults=[Fault.SLOTS_KILLED], spark=spark)
    print(report)  # noqa: T201 - for people who want to see the table: pytest -s
    assert report.guarantee is Guarantee.EXACTLY_ONCE


def test_files_are_written_exactly_once_when_nodes_are_killed(spark: Any, hdfs: Hdfs) -> None:
    report = check_sink(WrittenToHdfs(hdfs), records=RECORDS, faults=[Fault.SERVER_KILLED], spark=spark)
    print(report)  # noqa: T201
    assert report.guarantee is Guarantee.EXACTLY_ONCE

"""The kit passes connectors that keep their promise, and catches each planted fault."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cutwater.errors import ConfigurationError
from cutwater.graph.guarantees import Guarantee
from cutwater.testing.connectors import ALL, Fault, GuaranteeBroken, Report, check_sink, check_source

from .kit_server import NumberServer, NumbersRead, NumbersWritten
from .kit_subjects import Counting, FilesRead, FilesWritten, LinesAppended, Shelf

RECORDS = 30_000
WITHOUT_SERVER = tuple(fault for fault in ALL if not fault.needs_server)


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    from cutwater.deploy.session import embedded_session

    session = embedded_session(6)
    yield session
    session.stop()


@pytest.mark.parametrize("fault", [fault for fault in WITHOUT_SERVER if fault is not Fault.POISON])
def test_the_file_sink_passes(spark: Any, tmp_path: Path, fault: Fault) -> None:
    report = check_sink(FilesWritten(tmp_path), faults=[fault], spark=spark)
    print(report)  # noqa: T201 — for people who want to see the table: pytest -s
    assert report.guarantee is Guarantee.EXACTLY_ONCE


@pytest.mark.parametrize("fault", WITHOUT_SERVER)
def test_the_file_source_passes(spark: Any, tmp_path: Path, fault: Fault) -> None:
    report = check_source(FilesRead(tmp_path), faults=[fault], spark=spark)
    print(report)  # noqa: T201
    assert report.guarantee is Guarantee.EXACTLY_ONCE


def test_a_sink_that_appends_passes_as_at_least_once_and_does_repeat(spark: Any, tmp_path: Path) -> None:
    report = check_sink(LinesAppended(tmp_path), records=RECORDS, faults=[Fault.SLOTS_KILLED], spark=spark)
    assert (report.guarantee, report.trials[0].repeated > 0) == (Guarantee.AT_LEAST_ONCE, True)


def test_a_sink_that_appends_and_calls_it_idempotent_is_caught(spark: Any, tmp_path: Path) -> None:
    subject = LinesAppended(tmp_path, claims_idempotence=True)
    with pytest.raises(GuaranteeBroken, match="records are there more than once"):
        check_sink(subject, records=RECORDS, faults=[Fault.SLOTS_KILLED], spark=spark)


@pytest.mark.parametrize("fault", [Fault.SLOTS_KILLED, Fault.KILLED_WHEN_PREPARED])
def test_the_shelf_passes_without_a_fault(spark: Any, tmp_path: Path, fault: Fault) -> None:
    assert check_sink(Shelf(tmp_path), records=RECORDS, faults=[fault], spark=spark).passed


@pytest.mark.parametrize(
    ("planted", "fault", "found"),
    [
        ("commits at prepare", Fault.KILLED_WHEN_PREPARED, "visible before the first commit"),
        ("commits at prepare", Fault.KILLED_WHEN_PREPARED, "there more than once"),
        ("forgets to roll back", Fault.KILLED_WHEN_PREPARED, "pending stayed behind"),
        ("appends again", Fault.SLOTS_KILLED, "there more than once"),
    ],
)
def test_a_fault_in_a_sink_is_caught(spark: Any, tmp_path: Path, planted: str, fault: Fault, found: str) -> None:
    with pytest.raises(GuaranteeBroken, match=found):
        check_sink(Shelf(tmp_path, planted), records=RECORDS, faults=[fault], spark=spark)


@pytest.mark.parametrize("fault", [Fault.SLOTS_KILLED, Fault.SAVEPOINT])
def test_counting_passes_without_a_fault(spark: Any, fault: Fault) -> None:
    assert check_source(Counting(), records=RECORDS, faults=[fault], spark=spark).passed


@pytest.mark.parametrize("fault", [Fault.SLOTS_KILLED, Fault.SAVEPOINT])
@pytest.mark.parametrize(
    ("planted", "found"),
    [("behind", "there more than once"), ("ahead", "missing"), ("forgets", "there more than once")],
)
def test_a_fault_in_a_source_is_caught(spark: Any, planted: str, found: str, fault: Fault) -> None:
    with pytest.raises(GuaranteeBroken, match=found):
        check_source(Counting(planted), records=RECORDS, faults=[fault], spark=spark)


def test_the_report_counts_what_was_killed(spark: Any, tmp_path: Path) -> None:
    report: Report = check_sink(FilesWritten(tmp_path), records=RECORDS, faults=[Fault.SLOTS_KILLED], spark=spark)
    assert report.kills == {"slot": 3, "driver": 0, "server": 0}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NumberServer]:
    server = NumberServer(tmp_path / "numbers.txt")
    yield server
    server.kill()


SERVER_FAULTS = [Fault.SERVER_KILLED, Fault.SERVER_PAUSED]


@pytest.mark.parametrize("fault", SERVER_FAULTS)
def test_a_sink_survives_what_happens_to_its_server(spark: Any, server: NumberServer, fault: Fault) -> None:
    report = check_sink(NumbersWritten(server), records=RECORDS, faults=[fault], spark=spark)
    assert (report.passed, report.kills["server"]) == (True, 2 if fault is Fault.SERVER_KILLED else 0)


@pytest.mark.parametrize("fault", [*SERVER_FAULTS, Fault.SLOTS_KILLED])
def test_a_source_without_an_end_survives_what_happens(spark: Any, server: NumberServer, fault: Fault) -> None:
    assert check_source(NumbersRead(server), records=RECORDS, faults=[fault], spark=spark).passed


@pytest.mark.parametrize("fault", SERVER_FAULTS)
def test_a_fault_of_servers_needs_one(tmp_path: Path, fault: Fault) -> None:
    with pytest.raises(ConfigurationError, match="has no server"):
        check_sink(FilesWritten(tmp_path), faults=[fault])


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The programs of docs/writing-connectors.md, as a module that slots and other drivers can import."""
    page = (Path(__file__).parents[2] / "docs" / "writing-connectors.md").read_text()
    folder = tmp_path_factory.mktemp("example")
    (folder / "orders_example.py").write_text("\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL)))
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield importlib.import_module("orders_example")


def test_the_sink_in_the_documentation_passes(spark: Any, tmp_path: Path, example: Any) -> None:
    report = check_sink(example.OrdersWritten(tmp_path), records=RECORDS, spark=spark)
    print(report)  # noqa: T201
    assert report.kills == {"slot": 7, "driver": 1, "server": 0}


def test_the_source_in_the_documentation_passes(spark: Any, tmp_path: Path, example: Any) -> None:
    faults = [fault for fault in WITHOUT_SERVER if fault not in (Fault.POISON, Fault.DRIVER_LATE)]
    report = check_source(example.OrdersRead(tmp_path), records=RECORDS, faults=faults, spark=spark)
    print(report)  # noqa: T201
    assert report.kills == {"slot": 7, "driver": 1, "server": 0}

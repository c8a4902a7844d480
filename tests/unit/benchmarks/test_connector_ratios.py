"""What do the connectors' benchmarks compute?"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import pytest

# As `python -m benchmarks.connectors.run` does, in the folder of the project.
sys.path.insert(0, str(Path(__file__).parents[3]))

from benchmarks.connectors import report
from benchmarks.connectors.counted_topics import Growth
from benchmarks.connectors.counting import Counted, System
from benchmarks.connectors.counting_contract import PER_BATCH, PER_RECORD
from benchmarks.connectors.databases import _Epochs
from benchmarks.connectors.ratios import Comparison, Run, Spread, Stopwatch


class NoFamily:
    """Of no process."""

    @staticmethod
    def cpu_seconds() -> float:
        return 0.0


NO_FAMILY: Any = NoFamily()


def runs(*seconds: float) -> list[Run]:
    """A thousand records each."""
    return [Run(1000, each, each / 2) for each in seconds]


def test_the_ratio_is_the_median_of_the_ratios_within_the_rounds() -> None:
    found = Comparison("kafka", "source", bare=runs(1.0, 10.0, 2.0), ours=runs(2.0, 10.0, 2.5))
    assert found.ratio == Spread(0.8, 0.5, 1.0)


def test_the_ratio_of_processor_time_is_that_of_records_per_second_of_it() -> None:
    found = Comparison("kafka", "source", bare=[Run(1000, 9.0, 1.0)], ours=[Run(500, 1.0, 1.0)])
    assert found.cpu_ratio.median == 0.5


def test_what_is_asked_is_met_by_the_median() -> None:
    ours = runs(1.0, 2.0, 5.0)
    met = [Comparison("kafka", "sink", asked, bare=runs(1.0, 1.0, 1.0), ours=ours).is_met for asked in (None, 0.5, 0.6)]
    assert met == [True, True, False]


def test_the_first_records_to_arrive_start_the_watch_and_do_not_count() -> None:
    watch = Stopwatch(300)
    seen = [watch.saw(100), watch.saw(100), watch.saw(100)]
    assert (seen, watch.end().rows) == ([False, False, True], 200)


def test_records_that_come_all_at_once_cannot_be_timed() -> None:
    watch = Stopwatch(100)
    watch.saw(100)
    with pytest.raises(ValueError, match="too few"):
        watch.end()


def test_what_is_sent_counts_from_the_first_record() -> None:
    watch = Stopwatch(100)
    watch.begin()
    assert watch.end().rows == 100


def test_the_bare_client_cuts_its_records_into_transactions_by_time() -> None:
    clock = iter(range(10))
    epochs = _Epochs(2500, now_seconds=lambda: float(next(clock)))
    assert [list(epoch)[-1] for epoch in epochs] == [999, 1999, 2499]


def test_a_peer_is_compared_with_our_results_of_the_same_kind() -> None:
    ours = [
        Counted(System("Cutwater", "", PER_RECORD), runs(1.0)),
        Counted(System("Cutwater", "", PER_BATCH), runs(0.5)),
    ]
    peer = Counted(System("Spark", "", PER_BATCH), runs(1.5))
    assert report.ahead_of(peer, [*ours, peer]) == Spread(3.0, 3.0, 3.0)


def test_only_what_was_measured_is_replaced_on_the_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
    found = Comparison("kafka", "source", 0.7, "consume", runs(1.0), runs(1.25))
    report.write(page, [found], [], {"redis": "not installed"}, "make bench-connectors")
    written = page.read_text()
    assert written.startswith("before\n")
    assert written.endswith("\nafter\n")
    assert "old" not in written
    assert "| kafka | consume | 1,000 | 800 | 0.80 (0.80–0.80) | 0.80 (0.80–0.80) | 0.7 ✓ | 1 |" in written
    assert "redis was not measured: not installed" in written


@pytest.mark.threads
def test_growth_is_seen_while_results_are_being_read() -> None:
    sizes = iter([1, 1, 2])
    with Growth(lambda: next(sizes, 2), NO_FAMILY) as growth:
        began = growth.last
        deadline = time.monotonic() + 30
        while growth.last == began and time.monotonic() < deadline:
            time.sleep(0.01)
    assert growth.last[0] > began[0]

"""Does a reader with a thread of its own give every record once, in order, with the right position?"""

from __future__ import annotations

import threading
from typing import Any

import pytest

from cutwater.batches import ObjectBatch, rows_of
from cutwater.connectors.bases.fetching import FETCHED_MAX, Fetched, Fetcher, FetchingReader
from cutwater.connectors.contract import ReaderContext
from cutwater.connectors.failures import PeerError

pytestmark = pytest.mark.threads

WAIT_SECONDS = 10.0


class Numbers(Fetcher):
    """0, 1, 2, …, one a batch; the position is the next one. Fails where it is told to, once."""

    def __init__(self, stop: int, fails_at: dict[int, Exception] | None = None) -> None:
        self._stop = stop
        self._fails_at = fails_at or {}
        self.connected_at: list[Any] = []
        self.acknowledged: list[Any] = []
        self.heard = threading.Event()
        self.sign_of_life = threading.Event()
        self.fetched = 0
        self._next = 0

    def connect(self, position: Any) -> None:
        self.connected_at.append(position)
        self._next = position or 0

    def fetch(self, limit: int) -> Fetched | None:
        if self._next in self._fails_at:
            raise self._fails_at.pop(self._next)
        if self._next >= self._stop:
            return Fetched(self._next, ends_split=True)
        self._next += 1
        self.fetched += 1
        return Fetched(self._next, ObjectBatch([self._next - 1]), lag=self._stop - self._next)

    def acknowledge(self, position: Any) -> None:
        self.acknowledged.append(position)
        self.heard.set()

    def keep_alive(self) -> None:
        self.sign_of_life.set()


class Reading:
    def __init__(self, fetcher: Fetcher, position: Any = None) -> None:
        self.woken = threading.Event()
        self.reader = FetchingReader(fetcher, position, ReaderContext(wake=self.woken.set), name="numbers")

    def next(self) -> Any:
        """The next batch's values; None: the end."""
        while True:
            self.woken.clear()
            batch = self.reader.read(10, 0.0)
            if batch is not None:
                return rows_of(batch)
            if self.reader.finished:
                return None
            assert self.woken.wait(WAIT_SECONDS)

    def all(self) -> list[Any]:
        return [value for values in iter(self.next, None) for value in values]


@pytest.fixture(autouse=True)
def _no_long_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cutwater.connectors.bases.patience.FIRST_PAUSE_SECONDS", 0.001)


def test_a_split_is_read_to_its_end() -> None:
    assert Reading(Numbers(20)).all() == list(range(20))


def test_the_position_is_behind_what_was_read_not_behind_what_was_fetched() -> None:
    reading = Reading(Numbers(20))
    first = reading.next()
    position = reading.reader.position
    assert (first, position, Reading(Numbers(20), position).all()) == ([0], 1, list(range(1, 20)))


def test_a_reader_fetches_only_a_little_ahead() -> None:
    fetcher = Numbers(1_000)
    reading = Reading(fetcher)
    for _ in range(5):
        reading.next()
    reading.reader.close()
    assert fetcher.fetched <= 5 + FETCHED_MAX + 1


def test_a_server_that_was_gone_is_connected_to_behind_what_was_fetched() -> None:
    fetcher = Numbers(6, {3: PeerError("connection reset")})
    assert (Reading(fetcher).all(), fetcher.connected_at) == (list(range(6)), [None, 3])


def test_any_other_failure_is_raised_behind_what_was_fetched() -> None:
    reading = Reading(Numbers(6, {2: ValueError("bad record")}))
    assert [reading.next(), reading.next()] == [[0], [1]]
    with pytest.raises(ValueError, match="bad record"):
        reading.next()


def test_what_a_completed_checkpoint_holds_is_acknowledged_also_when_the_loop_is_behind() -> None:
    fetcher = Numbers(1_000)
    reading = Reading(fetcher)
    reading.next()
    reading.reader.checkpoint_completed(1)
    assert (fetcher.heard.wait(WAIT_SECONDS), fetcher.acknowledged) == (True, [1])


def test_the_lag_is_that_of_the_last_batch_read() -> None:
    reading = Reading(Numbers(20))
    reading.next()
    assert reading.reader.lag == 19


def test_a_reader_that_is_far_ahead_gives_signs_of_life(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cutwater.connectors.bases.fetching.KEEP_ALIVE_SECONDS", 0.001)
    fetcher = Numbers(1_000)
    reading = Reading(fetcher)
    heard = fetcher.sign_of_life.wait(WAIT_SECONDS)
    reading.reader.close()
    assert heard

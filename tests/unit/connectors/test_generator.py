from __future__ import annotations

import pytest

from cutwater.connectors import sources
from cutwater.connectors.contract import ReaderContext
from cutwater.errors import ConfigurationError, UserFunctionError


def readers(source, positions=None):
    return [
        source.reader(split, None if positions is None else positions[split.id], ReaderContext())
        for split in source.discover(1).splits
    ]


def drain(reader, limit=5, now_seconds=0.0):
    values = []
    while batch := reader.read(limit, now_seconds):
        values += batch.values
    return values


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 100])
def test_all_splits_together_generate_every_index_once(count):
    values = [value for reader in readers(sources.generator(lambda i: i, count=count)) for value in drain(reader)]
    assert sorted(values) == list(range(count))


@pytest.mark.parametrize("count", [0, 3, 100])
def test_a_bounded_split_finishes(count):
    for reader in readers(sources.generator(lambda i: i, count=count)):
        drain(reader)
        assert reader.finished


def test_the_splits_are_the_same_at_every_parallelism():
    source = sources.generator(str)
    assert source.discover(1) == source.discover(16)


def test_a_resumed_reader_goes_on_with_the_next_index():
    source = sources.generator(lambda i: i, splits=4)
    first = readers(source)[1]
    first.read(3, 0.0)
    again = source.reader(source.discover(1).splits[1], first.position, ReaderContext())
    assert again.read(2, 0.0).values == [13, 17]


def test_the_rate_is_that_of_the_whole_source():
    all_readers = readers(sources.generator(lambda i: i, per_second=100))
    records = 0
    for tick in range(1001):
        records += sum(len(drain(reader, now_seconds=tick / 100)) for reader in all_readers)
    assert records == pytest.approx(1000, abs=8)


def test_slow_splits_take_turns():
    all_readers = readers(sources.generator(lambda i: i, per_second=1))
    seen = [value for second in range(10) for reader in all_readers for value in drain(reader, now_seconds=second)]
    assert seen == list(range(10))


def test_after_a_pause_no_more_than_a_second_is_caught_up_on():
    all_readers = readers(sources.generator(lambda i: i, per_second=80))
    for reader in all_readers:
        drain(reader, now_seconds=0.0)
    assert sum(len(drain(reader, now_seconds=1000.0)) for reader in all_readers) == 80


def test_the_reader_says_when_the_next_record_is_due():
    reader = readers(sources.generator(lambda i: i, per_second=2, splits=1))[0]
    drain(reader, now_seconds=10.0)
    assert reader.wake_at() == 10.5


def test_a_raising_function_is_named_with_its_index():
    reader = readers(sources.generator(lambda i: 1 // (i - 9), splits=1))[0]
    with pytest.raises(UserFunctionError, match="ZeroDivisionError") as caught:
        reader.read(100, 0.0)
    assert "index 9" in caught.value.detail
    assert "test_generator.py" in caught.value.detail


def test_a_function_that_raises_stop_iteration_is_an_error_too():
    def stop(index):
        raise StopIteration

    with pytest.raises(UserFunctionError, match="StopIteration"):
        readers(sources.generator(stop))[0].read(1, 0.0)


@pytest.mark.parametrize("options", [{"count": -1}, {"per_second": 0}, {"splits": 0}, {"splits": 1.5}])
def test_impossible_settings_are_refused(options):
    with pytest.raises(ConfigurationError):
        sources.generator(str, **options)

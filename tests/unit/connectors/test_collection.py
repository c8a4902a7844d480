from __future__ import annotations

import threading

import pytest

from cutwater.connectors import sources
from cutwater.connectors.contract import ReaderContext
from cutwater.errors import ConfigurationError, SerializationError


def read_all(source):
    values = []
    for split in source.discover(1).splits:
        reader = source.reader(split, None, ReaderContext())
        while not reader.finished:
            batch = reader.read(3, 0.0)
            values += batch.values if batch else []
    return values


@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 1000])
def test_every_value_is_read_once_and_in_order(count):
    assert read_all(sources.collection(range(count))) == list(range(count))


def test_the_splits_do_not_depend_on_the_parallelism():
    source = sources.collection(range(100))
    assert source.discover(1) == source.discover(7)


def test_a_reader_resumes_at_its_position():
    source = sources.collection(range(100))
    split = source.discover(1).splits[3]
    reader = source.reader(split, None, ReaderContext())
    first = reader.read(2, 0.0).values
    rest = source.reader(split, reader.position, ReaderContext()).read(100, 0.0).values
    assert first + rest == source.reader(split, None, ReaderContext()).read(100, 0.0).values


def test_an_empty_collection_has_no_splits_and_is_complete():
    discovery = sources.collection([]).discover(2)
    assert (discovery.splits, discovery.complete) == ((), True)


def test_values_that_cannot_be_pickled_are_refused_when_the_job_is_written():
    with pytest.raises(SerializationError, match="lock"):
        sources.collection([1, threading.Lock()])


def test_what_cannot_be_iterated_is_refused():
    with pytest.raises(ConfigurationError):
        sources.collection(7)

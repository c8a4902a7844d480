"""In whatever order and however often commits and recoveries come: each record visible once."""

from __future__ import annotations

import os
import tempfile

from hypothesis import given
from hypothesis import strategies as st

from cutwater.batches import ObjectBatch
from cutwater.connectors import sinks, sources
from cutwater.connectors.contract import ReaderContext, WriterContext
from cutwater.protocol.ids import AttemptNumber, CheckpointId

epochs = st.lists(st.lists(st.integers(0, 9), max_size=3), min_size=1, max_size=5)


def visible_lines(folder):
    names = [name for name in sorted(os.listdir(folder)) if not name.startswith(".")]
    return [line for name in names for line in open(os.path.join(folder, name)).read().splitlines()]


@given(epochs=epochs, data=st.data())
def test_a_crash_anywhere_leaves_exactly_the_completed_epochs(epochs, data):
    completed = data.draw(st.integers(0, len(epochs)), label="epochs whose checkpoint completed")
    with tempfile.TemporaryDirectory() as folder:
        sink = sinks.text(folder, roll_bytes=4)
        writer = sink.writer(WriterContext("job", "out", 0, 1, AttemptNumber(0)))
        prepared = []
        for number, values in enumerate(epochs):
            if values:
                writer.write(ObjectBatch(values))
            prepared.append(writer.prepare(CheckpointId(number)))
        in_snapshot = [committable for epoch in prepared[:completed] for committable in epoch]
        some = data.draw(st.lists(st.sampled_from(in_snapshot)) if in_snapshot else st.just([]), label="committed")
        sink.commit(some)
        for _ in range(data.draw(st.integers(1, 3), label="recoveries")):
            sink.recover(job_id="job", uid="out", committables=in_snapshot)
        pending = os.listdir(os.path.join(folder, ".pending")) if any(epochs) else []
        assert visible_lines(folder) == [str(value) for epoch in epochs[:completed] for value in epoch]
        assert pending == []


@given(epochs=epochs, data=st.data())
def test_collected_results_arrive_once(epochs, data):
    sink = sinks.collect()
    writer = sink.writer(WriterContext("job", "out", 0, 1, AttemptNumber(0), report=sink.receive))
    committables = []
    for number, values in enumerate(epochs):
        if values:
            writer.write(ObjectBatch(values))
        committables += writer.prepare(CheckpointId(number))
    repeated = data.draw(st.permutations(committables * 2))
    for committable in repeated:
        writer.commit([committable])
    assert sorted(sink.collected.take()) == sorted(value for epoch in epochs for value in epoch)


@given(
    values=st.lists(st.integers(), max_size=50),
    limits=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    count=st.integers(0, 50),
    lanes=st.integers(1, 9),
)
def test_collections_and_generators_resume_anywhere(values, limits, count, lanes):
    def read_in_steps(source, split):
        records, position, step = [], None, 0
        while not (reader := source.reader(split, position, ReaderContext())).finished:
            batch = reader.read(limits[step % len(limits)], 0.0)
            records += batch.values
            position, step = reader.position, step + 1
        return records

    collection = sources.collection(values)
    generator = sources.generator(lambda index: index, count=count, splits=lanes)
    assert [v for split in collection.discover(1).splits for v in read_in_steps(collection, split)] == values
    generated = [v for split in generator.discover(1).splits for v in read_in_steps(generator, split)]
    assert sorted(generated) == list(range(count))

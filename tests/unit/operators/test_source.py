"""Is every record of every split read once, also across snapshots?"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.batches import Batch, ObjectBatch
from cutwater.connectors.contract import Discovery, Source, SplitReader
from cutwater.errors import StorageError
from cutwater.operators.source import ASK_AGAIN_SECONDS, ReaderOperator, decode_progress
from cutwater.protocol.splits import Split


class Letters(Source):
    """A split is a word; "-" in it is a moment without data."""

    def __init__(self, *, eager: bool = False, wake: dict[str, float] | None = None) -> None:
        self.eager = eager
        self.wake = wake or {}
        self.opened: list[str] = []
        self.closed: list[str] = []

    @property
    def name(self) -> str:
        return "letters"

    def discover(self, parallelism: int) -> Discovery:
        return Discovery((), complete=True)

    def reader(self, split: Split, position: Any) -> SplitReader:
        self.opened.append(split.id)
        return LetterReader(self, split, position or 0)


class LetterReader(SplitReader):
    def __init__(self, source: Letters, split: Split, index: int) -> None:
        self._source = source
        self._split = split
        self._word = split.payload.decode()
        self._index = index

    def read(self, limit: int, now_seconds: float) -> Batch | None:
        if self._word[self._index :].startswith("!"):
            raise OSError("disk on fire")
        found = self._word[self._index : self._index + limit].split("-")[0]
        self._index += len(found) or 1
        return ObjectBatch(list(found)) if found else None

    @property
    def position(self) -> int:
        return self._index

    @property
    def finished(self) -> bool:
        return self._index >= len(self._word)

    def wake_at(self) -> float | None:
        return self._source.wake.get(self._split.id)

    def close(self) -> None:
        self._source.closed.append(self._split.id)


def word(text: str) -> Split:
    return Split(text, text.encode())


def test_a_lazy_source_reads_one_split_after_the_other(task: Any) -> None:
    source = Letters()
    chain = task(ReaderOperator(source, limit=2))
    chain.operator.add_splits([word("abc"), word("de")])
    polls = [chain.operator.poll() for _ in range(4)]
    assert (polls, chain.output) == ([True, True, True, False], list("abcde"))
    assert (source.opened, source.closed) == (["abc", "de"], ["abc", "de"])


def test_an_eager_source_reads_all_its_splits_in_turn(task: Any) -> None:
    chain = task(ReaderOperator(Letters(eager=True), limit=1))
    chain.operator.add_splits([word("abc"), word("xyz")])
    for _ in range(4):
        chain.operator.poll()
    assert chain.output == ["a", "x", "b", "y"]


def test_a_pause_in_one_split_does_not_hold_up_the_others(task: Any) -> None:
    chain = task(ReaderOperator(Letters(eager=True), limit=1))
    chain.operator.add_splits([word("-a"), word("x")])
    assert [chain.operator.poll(), chain.operator.poll(), chain.operator.poll()] == [True, True, False]
    assert chain.output == ["x", "a"]


def test_a_pause_in_a_lazy_split_ends_the_poll(task: Any) -> None:
    chain = task(ReaderOperator(Letters(), limit=1))
    chain.operator.add_splits([word("--a"), word("x"), word("y")])
    assert [chain.operator.poll() for _ in range(3)] == [False, False, True]


def test_an_empty_split_is_passed_over_at_once(task: Any) -> None:
    chain = task(ReaderOperator(Letters()))
    chain.operator.add_splits([word("-"), word("a")])
    assert chain.operator.poll()
    assert chain.output == ["a"]


def test_a_split_is_asked_for_once_per_need(task: Any) -> None:
    reader = task(ReaderOperator(Letters())).operator
    asked = [reader.wants_split(), reader.wants_split()]
    reader.add_splits([word("a")])
    asked.append(reader.wants_split())
    reader.poll()
    asked += [reader.wants_split(), reader.wants_split()]
    reader.no_more_splits()
    assert (asked, reader.finished, reader.wants_split()) == ([True, False, False, True, False], True, False)


def test_an_eager_source_never_asks(task: Any) -> None:
    assert not task(ReaderOperator(Letters(eager=True))).operator.wants_split()


def test_a_source_is_not_finished_before_its_last_record(task: Any) -> None:
    reader = task(ReaderOperator(Letters(), limit=1)).operator
    reader.add_splits([word("ab")])
    reader.no_more_splits()
    finished = [reader.finished]
    for _ in range(2):
        reader.poll()
        finished.append(reader.finished)
    assert finished == [False, False, True]


@given(
    words=st.lists(st.text("abc-", min_size=1), max_size=5, unique=True),
    polls=st.integers(0, 12),
    eager=st.booleans(),
    at_most_once=st.booleans(),
)
def test_a_restored_reader_goes_on_exactly_behind_the_snapshot(
    task: Any, words: list[str], polls: int, eager: bool, at_most_once: bool
) -> None:
    chain = task(ReaderOperator(Letters(eager=eager), at_most_once, limit=2))
    chain.operator.add_splits([word(text) for text in words])
    for index in range(polls):
        chain.operator.poll()
        if index % 3 == 0:
            confirm_one(chain.operator)
    before = chain.output
    restored = task(ReaderOperator(Letters(eager=eager), limit=2), lists=chain.freeze())
    restored.operator.no_more_splits()
    while not restored.operator.finished:
        restored.operator.poll()
    assert sorted(before + restored.output) == sorted("".join(words).replace("-", ""))


def confirm_one(reader: ReaderOperator) -> None:
    progress = reader.take_progress()
    if progress is not None:
        reader.confirm(progress[0])


def test_a_restored_task_with_nothing_left_asks_again(task: Any) -> None:
    chain = task(ReaderOperator(Letters()))
    chain.operator.add_splits([word("a")])
    chain.operator.poll()
    restored = task(ReaderOperator(Letters()), lists=chain.freeze())
    assert restored.operator.wants_split()


def test_closing_closes_every_open_reader_once(task: Any) -> None:
    source = Letters(eager=True)
    chain = task(ReaderOperator(source, limit=1))
    chain.operator.add_splits([word("a"), word("bc")])
    chain.operator.poll()
    chain.operator.close()
    assert source.closed == ["a", "bc"]


@pytest.mark.parametrize(
    ("wake", "expected"), [({"a-": 5.0, "b-": 3.0}, 3.0), ({"a-": 5.0}, ASK_AGAIN_SECONDS), ({}, ASK_AGAIN_SECONDS)]
)
def test_the_earliest_reader_wakes_the_task_and_one_without_a_time_is_asked_again_soon(
    task: Any, wake: Any, expected: Any
) -> None:
    chain = task(ReaderOperator(Letters(eager=True, wake=wake), limit=1))
    chain.operator.add_splits([word("a-"), word("b-")])
    chain.operator.poll()
    chain.operator.poll()
    assert chain.operator.wake_at() == expected


def test_batches_are_larger_when_there_is_a_schema() -> None:
    class Typed(Letters):
        @property
        def schema(self) -> pa.Schema:
            return pa.schema([("letter", pa.string())])

    assert [ReaderOperator(source)._limit for source in (Letters(), Typed())] == [1024, 16_384]


def test_a_failing_read_names_source_and_split(task: Any) -> None:
    chain = task(ReaderOperator(Letters()))
    chain.operator.add_splits([word("!")])
    with pytest.raises(StorageError) as failure:
        chain.operator.poll()
    assert failure.value.fact == 'source "letters" can\'t read split "!": OSError: disk on fire'


def test_at_most_once_a_batch_leaves_only_when_its_progress_is_confirmed(task: Any) -> None:
    chain = task(ReaderOperator(Letters(), at_most_once=True, limit=1))
    reader = chain.operator
    reader.add_splits([word("abcdefg")])
    polls = [reader.poll() for _ in range(6)]
    sequences = [progress[0] for progress in iter(reader.take_progress, None)]
    assert (polls, sequences, chain.output) == ([True] * 4 + [False] * 2, [1, 2, 3, 4], [])
    reader.confirm(2)
    assert [reader.poll() for _ in range(3)] == [True, True, False]
    assert chain.output == ["a", "b"]


def test_at_most_once_the_progress_is_the_readers_behind_the_batch(task: Any) -> None:
    chain = task(ReaderOperator(Letters(), at_most_once=True, limit=1))
    chain.operator.add_splits([word("abc"), word("de")])
    chain.operator.poll()
    _, progress = chain.operator.take_progress()
    restored = task(ReaderOperator(Letters(), limit=9), lists={"readers": decode_progress(progress)[0]})
    restored.operator.poll()
    restored.operator.poll()
    assert restored.output == list("bcde")


def test_at_most_once_the_end_waits_for_the_last_confirmation(task: Any) -> None:
    chain = task(ReaderOperator(Letters(), at_most_once=True))
    reader = chain.operator
    reader.add_splits([word("a")])
    reader.poll()
    reader.no_more_splits()
    finished = [reader.finished]
    confirm_one(reader)
    reader.poll()
    assert (finished, reader.finished, chain.output) == ([False], True, ["a"])


def test_at_most_once_a_finished_split_is_told_once_with_its_last_batch(task: Any) -> None:
    chain = task(ReaderOperator(Letters(), at_most_once=True, limit=1))
    chain.operator.add_splits([word("ab"), word("c"), word("d")])
    while chain.operator.poll():
        pass
    told = [decode_progress(progress)[1] for _, progress in iter(chain.operator.take_progress, None)]
    assert told == [[], ["ab"], ["c"], ["d"]]


@pytest.mark.parametrize("at_most_once", [False, True])
def test_a_stopped_reader_reads_no_further_but_keeps_its_place(task: Any, at_most_once: bool) -> None:
    chain = task(ReaderOperator(Letters(), at_most_once, limit=1))
    reader = chain.operator
    reader.add_splits([word("abcdefg")])
    reader.poll()
    reader.stop()
    reader.confirm(1)
    while not reader.finished:
        reader.poll()
    assert (reader.poll(), reader.wants_split(), chain.output) == (False, False, ["a"])
    restored = task(ReaderOperator(Letters()), lists=chain.freeze())
    restored.operator.poll()
    assert restored.output == list("bcdefg")


def test_a_task_without_splits_sleeps_and_one_with_new_splits_does_not(task: Any) -> None:
    reader = task(ReaderOperator(Letters())).operator
    idle = reader.wake_at()
    reader.add_splits([word("a")])
    assert (idle, reader.wake_at()) == (None, 0.0)


def test_at_most_once_a_full_hold_sleeps_until_a_confirmation(task: Any) -> None:
    reader = task(ReaderOperator(Letters(), at_most_once=True, limit=1)).operator
    reader.add_splits([word("abcdefg")])
    while reader.poll():
        pass
    full = reader.wake_at()
    reader.confirm(1)
    assert (full, reader.wake_at()) == (None, 0.0)

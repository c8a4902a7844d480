"""Is every record of every split read once, also across snapshots?"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.batches import Batch, ObjectBatch
from cutwater.connectors.contract import Discovery, ReaderContext, Source, SplitReader, Unreadable
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

    def reader(self, split: Split, position: Any, context: ReaderContext) -> SplitReader:
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


class Acknowledging(Letters):
    """Its readers hear of completed checkpoints and wake the loop."""

    def __init__(self) -> None:
        super().__init__(eager=True)
        self.acknowledged: list[tuple[str, int]] = []

    def reader(self, split: Split, position: Any, context: ReaderContext) -> SplitReader:
        return AcknowledgingReader(self, split, position or 0)


class AcknowledgingReader(LetterReader):
    _source: Acknowledging
    wakes_loop = True

    def checkpoint_completed(self, position: Any) -> None:
        self._source.acknowledged.append((self._split.id, position))


def test_a_reader_hears_what_a_completed_checkpoint_holds_of_its_split(task: Any) -> None:
    source = Acknowledging()
    chain = task(ReaderOperator(source, limit=1))
    chain.operator.add_splits([word("abcd")])
    for checkpoint in (1, 2, 3):
        chain.operator.poll()
        chain.freeze(checkpoint)
    chain.operator.on_checkpoint_completed(2)  # 1 was subsumed
    chain.operator.on_checkpoint_completed(3)
    assert source.acknowledged == [("abcd", 2), ("abcd", 3)]


def test_a_reader_that_wakes_the_loop_is_not_asked_again_and_again(task: Any) -> None:
    chain = task(ReaderOperator(Acknowledging(), limit=1))
    chain.operator.add_splits([word("--a")])
    chain.operator.poll()
    assert chain.operator.wake_at() is None


def test_splits_are_opened_elsewhere_and_one_that_is_slow_holds_up_no_other(task: Any) -> None:
    chain = task(ReaderOperator(Letters(eager=True)), opens_later=True)
    chain.operator.add_splits([word("a"), word("b")])
    chain.operator.poll()
    chain.opening.reverse()
    chain.open_one()
    assert (chain.operator.poll(), chain.output) == (True, ["b"])


def test_a_split_that_is_being_opened_is_in_the_snapshot(task: Any) -> None:
    chain = task(ReaderOperator(Letters()), opens_later=True)
    chain.operator.add_splits([word("ab")])
    chain.operator.poll()
    restored = task(ReaderOperator(Letters()), lists=chain.freeze())
    restored.operator.poll()
    assert restored.output == ["a", "b"]


def test_a_source_with_a_split_that_is_being_opened_has_not_finished_and_wants_none(task: Any) -> None:
    chain = task(ReaderOperator(Letters()), opens_later=True)
    chain.operator.add_splits([word("a")])
    chain.operator.no_more_splits()
    chain.operator.poll()
    assert (chain.operator.finished, chain.operator.wants_split()) == (False, False)


def test_a_lazy_source_opens_one_split_at_a_time(task: Any) -> None:
    chain = task(ReaderOperator(Letters()), opens_later=True)
    chain.operator.add_splits([word("a"), word("b")])
    chain.operator.poll()
    chain.operator.poll()
    assert len(chain.opening) == 1


def test_a_reader_that_opens_after_close_is_closed(task: Any) -> None:
    source = Letters()
    chain = task(ReaderOperator(source), opens_later=True)
    chain.operator.add_splits([word("a")])
    chain.operator.poll()
    chain.operator.close()
    chain.open_one()
    assert source.closed == ["a"]


def test_a_split_that_cannot_be_opened_is_named(task: Any) -> None:
    class Broken(Letters):
        def reader(self, split: Split, position: Any, context: ReaderContext) -> SplitReader:
            raise OSError("no route to host")

    chain = task(ReaderOperator(Broken()), opens_later=True)
    chain.operator.add_splits([word("a")])
    chain.operator.poll()
    with pytest.raises(StorageError, match='source "letters" can\'t open split "a": OSError: no route to host'):
        chain.open_one()


def test_finished_splits_are_told_where_others_wait_for_them(task: Any) -> None:
    source = Letters(eager=True)
    source.has_successors = True
    chain = task(ReaderOperator(source))
    chain.operator.add_splits([word("a"), word("bc")])
    chain.operator.poll()
    assert (chain.operator.take_finished(), chain.operator.take_finished()) == (["a"], [])


def test_the_lag_of_each_split_is_counted_until_it_ends(task: Any) -> None:
    class Behind(Letters):
        def reader(self, split: Split, position: Any, context: ReaderContext) -> SplitReader:
            class Reader(LetterReader):
                lag = property(lambda self: len(self._word) - self._index)

            return Reader(self, split, position or 0)

    chain = task(ReaderOperator(Behind(eager=True), limit=1))
    chain.operator.add_splits([word("abc"), word("x")])
    seen = []
    for _ in range(3):
        chain.operator.poll()
        seen.append(chain.metrics.lag)
    assert seen == [{"abc": 2}, {"abc": 2}, {"abc": 1}]


class Spoiled(Letters):
    """Digits in a word can't be decoded."""

    can_tolerate = True

    def reader(self, split: Split, position: Any, context: ReaderContext) -> SplitReader:
        return SpoiledReader(self, split, position or 0, tolerant=context.tolerant)


class SpoiledReader(LetterReader):
    def __init__(self, source: Letters, split: Split, index: int, *, tolerant: bool) -> None:
        super().__init__(source, split, index)
        self._tolerant = tolerant
        self._unreadable: list[Unreadable] = []

    def read(self, limit: int, now_seconds: float) -> Batch | None:
        first = self._index
        batch = super().read(limit, now_seconds)
        found = [] if batch is None else list(enumerate(batch.values, first))
        bad = [(index, each) for index, each in found if each.isdigit()]
        if bad and not self._tolerant:
            raise ValueError(f"a digit at {bad[0][0]}")
        self._unreadable = [Unreadable(each, index, ValueError("a digit")) for index, each in bad]
        good = [each for _, each in found if not each.isdigit()]
        return ObjectBatch(good) if good else None

    def take_unreadable(self) -> list[Unreadable]:
        unreadable, self._unreadable = self._unreadable, []
        return unreadable


def letters_of(chain: Any) -> list[tuple[Any, str | None, str]]:
    return [(each.record, each.position, each.error) for tag, sent in chain.side for each in sent if tag == "errors"]


def test_by_default_what_cannot_be_decoded_fails_the_task(task: Any) -> None:
    chain = task(ReaderOperator(Spoiled()))
    chain.operator.add_splits([word("a1")])
    with pytest.raises(StorageError, match="a digit at 1"):
        chain.operator.poll()


def test_what_cannot_be_decoded_is_skipped_and_counted(task: Any) -> None:
    chain = task(ReaderOperator(Spoiled(), limit=2, on_error="skip"))
    chain.operator.add_splits([word("a123b4")])
    assert [chain.operator.poll() for _ in range(4)] == [True, True, True, False]
    assert (chain.output, chain.side, chain.metrics.skipped_records) == (["a", "b"], [], 4)


def test_what_cannot_be_decoded_leaves_as_a_dead_letter(task: Any) -> None:
    chain = task(ReaderOperator(Spoiled(), limit=2, on_error="dead_letter"))
    chain.operator.add_splits([word("a12b3")])
    while chain.operator.poll():
        pass
    assert (chain.output, chain.metrics.dead_letters) == (["a", "b"], 3)
    assert letters_of(chain) == [
        ("1", "a12b3@1", "ValueError: a digit"),
        ("2", "a12b3@2", "ValueError: a digit"),
        ("3", "a12b3@4", "ValueError: a digit"),
    ]


@pytest.mark.parametrize("at_most_once", [False, True])
@given(text=st.text("ab12-", max_size=8), polls=st.integers(0, 8), limit=st.integers(1, 3))
def test_dead_letters_leave_once_across_a_snapshot(
    task: Any, at_most_once: bool, text: str, polls: int, limit: int
) -> None:
    def run(lists: Any, times: int) -> Any:
        chain = task(ReaderOperator(Spoiled(), at_most_once, limit=limit, on_error="dead_letter"), lists=lists)
        if lists is None:
            chain.operator.add_splits([word(text)])
        chain.operator.no_more_splits()
        for _ in range(times):
            chain.operator.poll()
            confirm_one(chain.operator)
        return chain

    before = run(None, polls)
    after = run(before.freeze(), 20)
    assert [*before.output, *after.output] == [each for each in text if each in "ab"]
    found = [record for record, *_ in letters_of(before) + letters_of(after)]
    assert found == [each for each in text if each in "12"]

"""Does every split of a source have its own time, and does no watermark overtake a record?"""

from __future__ import annotations

from typing import Any

import pytest

from cutwater.batches import Batch, ObjectBatch
from cutwater.connectors.contract import Discovery, ReaderContext, Source, SplitReader, Unreadable
from cutwater.operators.event_time import TimestampSelector
from cutwater.operators.source import ASK_AGAIN_SECONDS, ReaderOperator, decode_position
from cutwater.protocol.event_time import WatermarkStrategy
from cutwater.protocol.splits import Split


class Times(Source):
    """A split is times in words: a number is a record at that time, "-" a moment without data, "!" a bad record.

    "w7" is no record: the outside world says that time is 7 there. "?" can't be decoded.
    """

    def __init__(self, *, eager: bool = True) -> None:
        self.eager = eager
        self.asked: list[str] = []

    @property
    def name(self) -> str:
        return "times"

    def discover(self, parallelism: int) -> Discovery:
        return Discovery((), complete=True)

    def reader(self, split: Split, position: Any, context: ReaderContext) -> SplitReader:
        return TimesReader(self, split, position or 0)


class TimesReader(SplitReader):
    def __init__(self, source: Times, split: Split, index: int) -> None:
        self._source = source
        self._split = split
        self._words = split.payload.decode().split()
        self._index = index
        self._watermark: int | None = None
        self._unreadable: list[Unreadable] = []

    def read(self, limit: int, now_seconds: float) -> Batch | None:
        self._source.asked.append(self._split.id)
        found: list[Any] = []
        while self._index < len(self._words) and len(found) < limit:
            word = self._words[self._index]
            if word[0] in "-w?" and found:
                break
            self._index += 1
            if word[0] == "?":
                self._unreadable.append(Unreadable(word, self._index, ValueError("?")))
            if word[0] in "-?":
                break
            if word[0] == "w":
                self._watermark = int(word[1:])
                break
            found.append(None if word == "!" else int(word))
        return ObjectBatch(found) if found else None

    def take_unreadable(self) -> list[Unreadable]:
        unreadable, self._unreadable = self._unreadable, []
        return unreadable

    @property
    def position(self) -> int:
        return self._index

    @property
    def finished(self) -> bool:
        return self._index >= len(self._words)

    @property
    def watermark_ms(self) -> int | None:
        return self._watermark


def opened(
    task: Any,
    *splits: str,
    eager: bool = True,
    at_most_once: bool = False,
    lists: Any = None,
    limit: int = 1,
    heard: bool = False,
    on_error: Any = "fail",
    **more: Any,
) -> Any:
    """A reader with these splits; each is called by its first word."""
    strategy = WatermarkStrategy(**({"kind": "bounded", "every_seconds": 0.0} | more))
    timestamps = (TimestampSelector(function=lambda record: record), strategy)
    chain = task(ReaderOperator(Times(eager=eager), at_most_once, timestamps, 1, on_error), lists=lists)
    order: list[Any] = []
    context = chain.operator.context
    context.emit = lambda batch: order.append(batch.values)
    context.emit_side = lambda tag, batch: order.append([letter.record for letter in batch.values])
    context.emit_watermark = order.append
    context.emit_idle = lambda: order.append("idle")
    chain.order = order
    if splits or heard:
        chain.operator.add_splits([Split(text.split()[0], text.encode()) for text in splits])
    return chain


def poll(chain: Any, times: int) -> list[Any]:
    for _ in range(times):
        chain.operator.poll()
    return list(chain.order)


def test_time_is_that_of_the_slowest_split_and_follows_its_record(task: Any) -> None:
    assert poll(opened(task, "10 30", "20 25"), 4) == [[10], [20], 9, [30], 19, [25], 24]


def test_an_ended_split_holds_nothing_back_and_the_last_one_leaves_time_where_it_is(task: Any) -> None:
    assert poll(opened(task, "10", "20 40"), 4) == [[10], [20], 19, [40], 39]


def test_a_batch_of_bad_records_is_work_but_moves_no_time(task: Any) -> None:
    chain = opened(task, "! 10", bad_timestamps="drop")
    assert (chain.operator.poll(), chain.order, chain.metrics.bad_timestamps) == (True, [], 1)
    assert poll(chain, 1) == [[10], 9]


def test_dead_letters_of_a_source_are_work_but_move_no_time(task: Any) -> None:
    chain = opened(task, "? 10 ?", "20", on_error="dead_letter")
    assert [chain.operator.poll() for _ in range(5)] == [True, True, True, True, False]
    assert chain.order == [["?"], [20], [10], 9, ["?"]]


def test_at_most_once_a_split_ends_with_its_last_batch_though_dead_letters_follow(task: Any) -> None:
    chain = opened(task, "10 ?", "20", at_most_once=True, on_error="dead_letter")
    poll(chain, 4)
    chain.operator.confirm(3)
    assert poll(chain, 4) == [[10], [20], 19, ["?"]]


@pytest.mark.parametrize("ending", ["10 20 -", "10 20"])
def test_at_most_once_a_watermark_never_overtakes_a_held_batch(task: Any, ending: str) -> None:
    chain = opened(task, ending, at_most_once=True)
    poll(chain, 3)
    chain.operator.confirm(1)
    assert poll(chain, 1) == [[10], 9]
    chain.operator.confirm(2)
    assert poll(chain, 2) == [[10], 9, [20], 19]


def test_at_most_once_an_ended_split_counts_until_its_last_batch_has_left(task: Any) -> None:
    chain = opened(task, "10", "50 60", at_most_once=True)
    poll(chain, 4)
    chain.operator.confirm(1)
    first = poll(chain, 1)
    chain.operator.confirm(3)
    assert (first, poll(chain, 2)) == ([[10]], [[10], [50], 49, [60], 59])


def test_a_restored_source_reads_nothing_before_it_has_heard_of_its_other_splits(task: Any) -> None:
    before = opened(task, "50 60 70")
    readers = before.freeze()["readers"]
    after = opened(task, lists={"readers": readers})
    assert (poll(after, 2), after.operator.wake_at()) == ([], None)
    after.operator.add_splits([Split("10", b"10 20")])
    assert poll(after, 4) == [[50], [10], 9, [60], [20], 59]


def test_at_most_once_a_split_counts_before_a_held_batch_leaves(task: Any) -> None:
    chain = opened(task, "50", at_most_once=True)
    poll(chain, 1)
    chain.operator.add_splits([Split("10", b"10 20")])
    chain.operator.confirm(1)
    assert poll(chain, 1) == [[50]]


def test_at_most_once_a_held_split_is_not_silent(task: Any) -> None:
    chain = opened(task, "10 - - - -", at_most_once=True, idle_after_seconds=5.0)
    for _ in range(4):
        poll(chain, 1)
        chain.now_seconds += 5.0
    assert chain.order == []


def test_at_most_once_silence_is_told_though_nothing_leaves(task: Any) -> None:
    chain = opened(task, "- - - -", at_most_once=True, idle_after_seconds=5.0)
    poll(chain, 1)
    chain.now_seconds = 5.0
    assert poll(chain, 1) == ["idle"]


def test_dense_reading_brings_few_watermarks_and_the_end_brings_the_last(task: Any) -> None:
    chain = opened(task, "10 20 30", every_seconds=9.0)
    chain.operator.no_more_splits()
    assert poll(chain, 3) == [[10], 9, [20], [30], 29]


def test_a_silent_split_lets_time_go_on_and_wakes_the_task_for_it(task: Any) -> None:
    chain = opened(task, "10 20 30", "5 - - -", idle_after_seconds=5.0)
    poll(chain, 4)
    assert chain.operator.wake_at() == ASK_AGAIN_SECONDS
    chain.now_seconds = 5.0
    assert poll(chain, 2)[-1] == 29


def test_a_split_that_ends_while_the_others_are_silent_tells_its_watermark_before_idleness(task: Any) -> None:
    chain = opened(task, "10 - - 20", "5 - - - - -", idle_after_seconds=5.0, every_seconds=100.0)
    poll(chain, 3)
    chain.now_seconds = 5.0
    silent = poll(chain, 1)
    assert silent == [[10], [5], 4, 9, "idle"]
    assert poll(chain, 1) == [*silent, [20], 19, "idle"]


def test_who_speaks_again_behind_the_others_says_that_it_counts(task: Any) -> None:
    chain = opened(task, "10 - - 3 4", idle_after_seconds=5.0)
    poll(chain, 2)
    chain.now_seconds = 5.0
    assert poll(chain, 3) == [[10], 9, "idle", [3], 9, [4]]


def test_a_source_held_up_by_its_receivers_is_not_silent(task: Any) -> None:
    chain = opened(task, "10 20", "5 6 7", idle_after_seconds=5.0)
    poll(chain, 2)
    chain.now_seconds = 500.0
    assert poll(chain, 1)[-1] == [20]


def test_an_eager_task_that_got_no_split_is_idle_as_soon_as_it_knows(task: Any) -> None:
    chain = opened(task)
    before = poll(chain, 1)
    chain.operator.add_splits([])
    assert (before, poll(chain, 2), chain.metrics.source_may_lag) == ([], ["idle"], False)


def test_an_eager_task_that_never_gets_a_split_ends_without_being_idle(task: Any) -> None:
    chain = opened(task)
    chain.operator.no_more_splits()
    assert (poll(chain, 2), chain.operator.finished) == ([], True)


def test_a_lazy_task_that_waits_for_its_next_split_is_idle_after_a_while(task: Any) -> None:
    chain = opened(task, "10", eager=False, idle_after_seconds=5.0)
    poll(chain, 2)
    woken = chain.operator.wake_at()
    chain.now_seconds = 5.0
    assert (woken, poll(chain, 1), chain.operator.wake_at()) == (5.0, [[10], 9, "idle"], None)


def test_injected_watermarks_also_come_without_records(task: Any) -> None:
    chain = opened(task, "w7 10 w12 -", kind="injected")
    assert poll(chain, 3) == [7, [10], 12]


# Restores.


def test_a_restored_source_goes_on_with_every_clock(task: Any) -> None:
    before = opened(task, "10 15 40", "20 25 26")
    poll(before, 4)
    after = opened(task, lists=before.freeze(), heard=True)
    assert before.order == [[10], [20], 9, [15], 14, [25]]
    assert poll(after, 3) == [[40], 24, [26], 25]


def test_a_restored_split_counts_before_its_turn_comes(task: Any) -> None:
    parts = [opened(task, text, eager=False) for text in ("50 60 70", "10 20 30")]
    lists: dict[str, list[bytes]] = {}
    for part in parts:
        poll(part, 1)
        for name, items in part.freeze().items():
            lists.setdefault(name, []).extend(items)
    alone = opened(task, eager=False, lists={"readers": lists["readers"]})
    assert poll(alone, 4) == [[60], 9, [70], [20], 19, [30], 29]


def test_a_restored_split_that_never_began_counts_before_its_turn_comes(task: Any) -> None:
    begun, waiting = opened(task, "50 60 70", eager=False), opened(task, "10 20 30", eager=False)
    poll(begun, 1)
    readers = begun.freeze()["readers"] + waiting.freeze()["readers"]
    alone = opened(task, eager=False, lists={"readers": readers})
    assert poll(alone, 5) == [[60], [70], [10], 9, [20], 19, [30], 29]


def test_a_split_behind_what_was_told_does_not_turn_time_back_after_a_restore(task: Any) -> None:
    before = opened(task, "10 50 60", "5 - - - - - -", idle_after_seconds=5.0)
    poll(before, 4)
    before.now_seconds = 5.0
    poll(before, 2)
    after = opened(task, idle_after_seconds=5.0, lists=before.freeze(), heard=True)
    assert before.order[-2:] == [59, "idle"]
    assert poll(after, 1) == [59]
    assert [decode_position(item).watermark_ms for item in before.freeze()["readers"]] == [59]


def test_a_split_that_never_began_has_no_time_in_a_snapshot(task: Any) -> None:
    before = opened(task, "50 60", "10 20", eager=False)
    poll(before, 1)
    assert [decode_position(item).watermark_ms for item in before.freeze()["readers"]] == [49, None]


# Alignment.


def test_a_split_that_is_too_far_ahead_is_not_asked_and_wakes_nobody(task: Any) -> None:
    chain = opened(task, "100 200 300", max_drift_ms=5)
    poll(chain, 1)
    chain.operator.limit_time(50)
    asked = len(chain.operator._source.asked)
    worked = chain.operator.poll()
    assert (worked, chain.operator.paused, chain.operator.wake_at()) == (False, True, None)
    assert len(chain.operator._source.asked) == asked


def test_an_aligned_source_finds_out_where_it_is_and_waits_for_the_first_word(task: Any) -> None:
    chain = opened(task, "100 200 300", "10 20 30", max_drift_ms=5)
    assert (poll(chain, 5), chain.operator.paused) == ([[100], [10], 9], True)
    chain.operator.limit_time(None)
    assert poll(chain, 1)[-1] == [200]


def test_a_new_limit_wakes_a_paused_source(task: Any) -> None:
    chain = opened(task, "100 200 300", max_drift_ms=5)
    poll(chain, 1)
    chain.operator.limit_time(50)
    chain.operator.limit_time(99)
    assert (chain.operator.paused, chain.operator.wake_at()) == (False, ASK_AGAIN_SECONDS)
    assert poll(chain, 1)[-1] == 199


def test_a_slow_split_is_read_while_a_fast_one_waits(task: Any) -> None:
    chain = opened(task, "100 200", "10 20 30", max_drift_ms=5)
    poll(chain, 2)
    chain.operator.limit_time(50)
    assert poll(chain, 2) == [[100], [10], 9, [20], 19, [30], 99]
    assert chain.operator.paused


def test_a_split_that_waits_for_slower_sources_does_not_fall_silent(task: Any) -> None:
    chain = opened(task, "100 - 200", max_drift_ms=5, idle_after_seconds=5.0)
    chain.operator.limit_time(None)
    poll(chain, 2)
    chain.operator.limit_time(50)
    chain.now_seconds = 500.0
    assert (poll(chain, 1), chain.operator.wake_at()) == ([[100], 99], None)


def test_a_source_tells_how_far_it_is_and_whether_others_should_wait_for_it(task: Any) -> None:
    chain = opened(task, "100 - - -", max_drift_ms=5, idle_after_seconds=5.0)
    chain.operator.limit_time(None)
    told = []
    for now in (0.0, 0.0, 5.0):
        chain.now_seconds = now
        chain.operator.poll()
        told.append((chain.metrics.source_watermark_ms, chain.metrics.source_may_lag))
    assert (chain.operator.alignment, told) == (("default", 5), [(99, True), (99, True), (99, False)])


def test_who_has_read_all_holds_no_other_source_back(task: Any) -> None:
    chain = opened(task, "100")
    chain.operator.no_more_splits()
    chain.operator.poll()
    assert (chain.operator.finished, chain.metrics.source_may_lag) == (True, False)


def test_a_source_without_a_drift_is_not_aligned(task: Any) -> None:
    assert opened(task).operator.alignment is None


def test_a_restored_split_that_is_too_far_ahead_does_not_keep_a_lazy_task_from_the_one_it_waits_for(task: Any) -> None:
    parts = [opened(task, text, eager=False, max_drift_ms=5) for text in ("50 60", "10 20 30")]
    for part in parts:
        poll(part, 1)
    readers = [item for part in parts for item in part.freeze()["readers"]]
    alone = opened(task, eager=False, max_drift_ms=5, lists={"readers": readers})
    alone.operator.limit_time(14)
    assert poll(alone, 1) == [[20], 19]

"""Do timers call the function back, for their key, in order, and at their time?"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from cutwater.batches import times_of
from cutwater.errors import UserError, UserFunctionError
from cutwater.graph.keys import KeySelector
from cutwater.operators import timers as timers_module
from cutwater.operators.connect import BroadcastConnectOperator, ConnectOperator
from cutwater.operators.process import KeyedProcessOperator, ProcessOperator
from cutwater.protocol.watermarks import MAX_TIMESTAMP_MS

FIRST = KeySelector(lambda record: record[0])


class Alarm:
    """A record (key, time) sets a timer; the timer says how often the key has set one."""

    kind = "event"

    def open(self, context: Any) -> None:
        self.seen = context.value_state("seen", 0)

    def process(self, record: Any, context: Any) -> None:
        self.seen.update(self.seen.value() + 1)
        getattr(context, f"register_{self.kind}_timer")(record[1])

    def on_timer(self, time_ms: int, context: Any) -> Iterator[Any]:
        yield context.current_key, time_ms, context.timer_kind, self.seen.value()


class ProcessingAlarm(Alarm):
    kind = "processing"


def timed_output(chain: Any) -> list[tuple[Any, Any]]:
    taken = [
        pair
        for batch in chain.batches
        for pair in zip(batch.values, [None] * batch.num_rows if batch.times is None else batch.times, strict=True)
    ]
    chain.batches.clear()
    return taken


def test_event_timers_fire_by_time_with_the_state_of_their_key_and_carry_their_time(task: Any) -> None:
    chain = task(KeyedProcessOperator(FIRST, Alarm()))
    chain.feed(("a", 20), ("b", 10), ("a", 20))
    chain.operator.on_watermark(19)
    chain.operator.on_watermark(20)
    assert timed_output(chain) == [(("b", 10, "event", 1), 10), (("a", 20, "event", 2), 20)]


def test_processing_timers_fire_by_the_wall_clock_and_have_no_event_time(task: Any) -> None:
    chain = task(KeyedProcessOperator(FIRST, ProcessingAlarm()))
    chain.feed_at((("a", 500), 7), (("b", 100), 8))
    assert chain.operator.next_wall_ms() == 100
    chain.operator.on_wall_time(100)
    assert timed_output(chain) == [(("b", 100, "processing", 1), None)]
    assert chain.operator.next_wall_ms() == 500


def test_a_timer_that_is_due_already_fires_behind_its_batch(task: Any) -> None:
    class Eager(Alarm):
        def process(self, record: Any, context: Any) -> list[Any]:
            super().process(record, context)
            return ["record"]

    chain = task(KeyedProcessOperator(FIRST, Eager()))
    chain.operator.on_watermark(100)
    chain.feed_at((("a", 50), 60), (("a", 100), 61), (("a", 101), 62))
    assert timed_output(chain) == [
        ("record", 60),
        ("record", 61),
        ("record", 62),
        (("a", 50, "event", 3), 50),
        (("a", 100, "event", 3), 100),
    ]


def test_a_deleted_timer_never_fires_and_one_that_is_not_there_may_be_deleted(task: Any) -> None:
    class Changing(Alarm):
        def process(self, record: Any, context: Any) -> None:
            context.delete_event_timer(10)
            context.register_event_timer(record[1])

    chain = task(KeyedProcessOperator(FIRST, Changing()))
    chain.feed(("a", 10), ("b", 10), ("a", 30))
    chain.operator.on_watermark(30)
    assert [row[:2] for row in chain.output] == [("b", 10), ("a", 30)]


def test_a_timer_may_set_timers_that_are_due_by_now(task: Any) -> None:
    class Ticking(Alarm):
        def on_timer(self, time_ms: int, context: Any) -> Iterator[Any]:
            yield time_ms
            context.register_event_timer(time_ms + 10)

    chain = task(KeyedProcessOperator(FIRST, Ticking()))
    chain.feed(("a", 10))
    chain.operator.on_watermark(39)
    assert chain.output == [10, 20, 30]


def test_timers_without_end_behind_the_end_of_the_input_are_refused(task: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Ticking(Alarm):
        def on_timer(self, time_ms: int, context: Any) -> None:
            context.register_event_timer(time_ms + 1)

    monkeypatch.setattr(timers_module, "_TIMES_MAX", 100)
    chain = task(KeyedProcessOperator(FIRST, Ticking()))
    chain.feed(("a", 10))
    with pytest.raises(UserError, match="never end"):
        chain.operator.on_watermark(MAX_TIMESTAMP_MS)


def test_timers_and_the_watermark_survive_a_restore(task: Any) -> None:
    chain = task(KeyedProcessOperator(FIRST, Alarm()))
    chain.operator.on_watermark(15)
    chain.feed(("a", 20), ("b", 16))
    snapshot = chain.operator.freeze(1)
    lists = {part.name: list(part.items) for part in snapshot.lists}
    restored = task(KeyedProcessOperator(FIRST, Alarm()), keyed=list(snapshot.keyed.chunks()), lists=lists)
    restored.feed(("c", 15))
    assert restored.output == [("c", 15, "event", 1)]  # due at once, by the restored watermark
    restored.operator.on_watermark(30)
    assert [row[:2] for row in restored.output] == [("b", 16), ("a", 20)]


def test_the_end_of_time_is_not_restored(task: Any) -> None:
    chain = task(KeyedProcessOperator(FIRST, Alarm()))
    chain.operator.on_watermark(15)
    chain.operator.on_watermark(MAX_TIMESTAMP_MS)
    restored = task(KeyedProcessOperator(FIRST, lambda record, context: [context.watermark_ms]), lists=chain.freeze())
    restored.feed(("a", 1))
    assert restored.output == [15]


def test_the_context_knows_the_times(task: Any) -> None:
    def times(record: Any, context: Any) -> list[Any]:
        return [(context.timestamp_ms, context.watermark_ms, context.processing_time_ms, context.timer_kind)]

    chain = task(ProcessOperator(times))
    chain.wall_ms = 99
    chain.feed_at(("x", 5), ("y", 6))
    chain.operator.on_watermark(7)
    chain.feed("z")
    assert chain.output == [(5, None, 99, None), (6, None, 99, None), (None, 7, 99, None)]


def test_outputs_have_the_time_of_their_record(task: Any) -> None:
    def twice(record: Any, context: Any) -> Iterator[Any]:
        context.side_output("side", record)
        if record != "none":
            context.emit(record)
            yield record

    chain = task(ProcessOperator(twice))
    side_times: list[Any] = []
    chain.operator.context.emit_side = lambda tag, batch: side_times.append(times_of(batch).tolist())
    chain.feed_at(("x", 5), ("none", 6), ("y", 7))
    assert timed_output(chain) == [("x", 5), ("x", 5), ("y", 7), ("y", 7)]
    assert side_times == [[5, 6, 7]]


def test_maps_of_connected_streams_keep_the_times(task: Any) -> None:
    class Both:
        def map1(self, record: Any) -> Any:
            return record

        map2 = map1

    chain = task(ConnectOperator(Both()))
    chain.feed_at((1, 10), port=1)
    assert timed_output(chain) == [(1, 10)]


def test_both_keyed_inputs_of_a_connect_have_timers(task: Any) -> None:
    class Both(Alarm):
        def process1(self, record: Any, context: Any) -> None:
            context.register_event_timer(record[1])

        def process2(self, record: Any, context: Any) -> None:
            context.register_event_timer(record[1] + 1)

    chain = task(ConnectOperator(Both(), keys=(FIRST, FIRST)))
    chain.feed(("a", 10), port=0)
    chain.feed(("a", 10), port=1)
    chain.operator.on_watermark(20)
    assert [row[:2] for row in chain.output] == [("a", 10), ("a", 11)]


class Priced(Alarm):
    def process_broadcast(self, record: Any, context: Any) -> None:
        context.broadcast_state["price"] = (record, context.timestamp_ms, context.watermark_ms)

    def on_timer(self, time_ms: int, context: Any) -> list[Any]:
        return [(context.current_key, context.broadcast_state["price"])]


def test_a_keyed_stream_beside_a_broadcast_one_has_timers_that_see_the_broadcast_state(task: Any) -> None:
    chain = task(BroadcastConnectOperator(Priced(), FIRST))
    chain.operator.on_watermark(3)
    chain.feed_at((7, 4), port=1)
    chain.feed(("a", 10), port=0)
    chain.operator.on_watermark(10)
    assert chain.output == [("a", (7, 4, 3))]


def test_a_broadcast_record_can_set_no_timer(task: Any) -> None:
    class Wrong(Priced):
        def process_broadcast(self, record: Any, context: Any) -> None:
            context.register_event_timer(1)

    with pytest.raises(UserError, match="sets a timer it can't have here") as failure:
        task(BroadcastConnectOperator(Wrong(), FIRST)).feed(1, port=1)
    assert "belongs to no key" in failure.value.hint


def test_a_timer_without_a_key_is_refused(task: Any) -> None:
    with pytest.raises(UserError) as failure:
        task(ProcessOperator(ProcessOnly())).feed(("a", 1))
    assert failure.value.hint.startswith("key_by first")


class ProcessOnly:
    def process(self, record: Any, context: Any) -> None:
        context.register_event_timer(record[1])


def test_a_timer_without_on_timer_is_refused(task: Any) -> None:
    with pytest.raises(UserError) as failure:
        task(KeyedProcessOperator(FIRST, ProcessOnly())).feed(("a", 1))
    assert "on_timer(self, time_ms, context)" in failure.value.hint


def test_a_timer_in_open_is_refused(task: Any) -> None:
    class Early(Alarm):
        def open(self, context: Any) -> None:
            context.register_event_timer(1)

    with pytest.raises(UserError) as failure:
        task(KeyedProcessOperator(FIRST, Early()))
    assert "there is no key in open" in failure.value.hint


@pytest.mark.parametrize("time", [1.5, True, "10", None, datetime(2026, 1, 1)])  # noqa: DTZ001
def test_what_is_no_time_is_refused(task: Any, time: Any) -> None:
    with pytest.raises(UserError, match="a timer can't be set to"):
        task(KeyedProcessOperator(FIRST, Alarm())).feed(("a", time))


def test_a_datetime_is_a_time(task: Any) -> None:
    chain = task(KeyedProcessOperator(FIRST, Alarm()))
    chain.feed(("a", datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)))
    chain.operator.on_watermark(1000)
    assert chain.output == [("a", 1000, "event", 1)]


def test_a_failure_in_on_timer_names_key_and_time(task: Any) -> None:
    class Broken(Alarm):
        def on_timer(self, time_ms: int, context: Any) -> Iterator[Any]:
            yield 1 / 0

    chain = task(KeyedProcessOperator(FIRST, Broken()))
    chain.feed(("a", 10))
    with pytest.raises(UserFunctionError, match=r"Broken.on_timer.*failed on the timer of key 'a' at 10"):
        chain.operator.on_watermark(10)

"""Does the queue fire what a plain list would?"""

from hypothesis import given
from hypothesis import strategies as st

from cutwater.protocol.timers import Timer, TimerQueue

timers = st.builds(Timer, st.integers(0, 9), st.sampled_from(["a", "b", 1, None]), st.sampled_from([None, "w"]))
steps = st.lists(
    st.one_of(
        st.tuples(st.just("register"), timers),
        st.tuples(st.just("delete"), timers),
        st.tuples(st.just("due"), st.integers(0, 10)),
        st.tuples(st.just("restore"), st.none()),
    ),
    max_size=60,
)


@given(steps)
def test_the_queue_fires_what_a_sorted_list_would(steps: list[tuple[str, object]]):
    queue = TimerQueue()
    expected: list[Timer] = []
    for what, detail in steps:
        match what, detail:
            case "register", Timer() as timer:
                assert queue.register(*timer) == (timer not in expected)
                expected += [] if timer in expected else [timer]
            case "delete", Timer() as timer:
                assert queue.delete(*timer) == (timer in expected)
                expected = [other for other in expected if other != timer]
            case "due", int(upto_ms):
                fired = sorted((timer for timer in expected if timer.time_ms <= upto_ms), key=lambda t: t.time_ms)
                assert queue.due(upto_ms) == fired
                expected = [timer for timer in expected if timer.time_ms > upto_ms]
            case "restore", _:
                restored = TimerQueue()
                restored.restore(queue.items())
                queue = restored
        in_order = sorted(expected, key=lambda timer: timer.time_ms)
        assert queue.items() == in_order
        assert queue.next_time() == (in_order[0].time_ms if in_order else None)

"""Does time in a task only advance, and never past a split that counts?"""

from hypothesis import given
from hypothesis import strategies as st

from cutwater.protocol.event_time import SplitClocks

IDLE_AFTER = 10.0
splits = st.sampled_from("abc")
steps = st.lists(
    st.one_of(
        st.tuples(st.just("opened"), splits, st.none() | st.integers(-5, 20)),
        st.tuples(st.just("spoke"), splits, st.none() | st.integers(-5, 20)),
        st.tuples(st.just("silent"), splits, st.just(None)),
        st.tuples(st.just("finished"), splits, st.just(None)),
        st.tuples(st.just("waited"), st.just("a"), st.integers(1, 12)),
    ),
    max_size=40,
)


@given(steps)
def test_time_only_advances_and_never_past_a_split_that_counts(steps):
    clocks = SplitClocks(IDLE_AFTER)
    own: dict[str, int | None] = {}
    silent_since: dict[str, float] = {}
    asked: dict[str, float] = {}
    now = 0.0
    for verb, split, value in steps:
        before = clocks.watermark_ms
        if verb == "waited":
            now += value
        elif verb == "opened":
            clocks.opened(split, value)
            own.setdefault(split, value)
        elif split in own:
            if verb == "spoke":
                clocks.spoke(split, value)
                silent_since.pop(split, None)
                if value is not None and (own[split] is None or value > own[split]):
                    own[split] = value
            elif verb == "silent":
                clocks.silent(split, now)
                silent_since.setdefault(split, now)
                asked[split] = now
            else:
                clocks.finished(split)
                for book in (own, silent_since, asked):
                    book.pop(split, None)
        counting = [
            watermark
            for each, watermark in own.items()
            if each not in silent_since or asked[each] < silent_since[each] + IDLE_AFTER
        ]
        after = clocks.watermark_ms
        assert before is None or after >= before, "not monotone"
        if after != before and counting:
            assert None not in counting, "past a split that can't say"
            assert after == min(counting), "past a split that counts"
        assert clocks.all_idle == (bool(own) and not counting)

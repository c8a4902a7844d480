from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cutwater.protocol.heartbeats import HeartbeatMonitor

TIMEOUT_SECONDS = 5
events = st.lists(
    st.tuples(st.sampled_from(["seen", "forget", "look"]), st.sampled_from("abc"), st.integers(0, 4)), max_size=60
)


@given(events)
def test_exactly_the_silent_are_reported_and_each_silence_once(steps: list[tuple[str, str, int]]) -> None:
    monitor: HeartbeatMonitor[str] = HeartbeatMonitor(TIMEOUT_SECONDS)
    last: dict[str, int] = {}
    now = 0
    for what, who, passed in steps:
        now += passed
        if what == "seen":
            monitor.seen(who, now)
            last[who] = now
        elif what == "forget":
            monitor.forget(who)
            last.pop(who, None)
        else:
            silent = {name for name, seen in last.items() if seen + TIMEOUT_SECONDS <= now}
            reported = monitor.expired(now)
            assert set(reported) == silent
            assert [last[name] for name in reported] == sorted(last[name] for name in reported)
            for name in silent:
                del last[name]
        assert monitor.wake_at() == (min(last.values()) + TIMEOUT_SECONDS if last else None)

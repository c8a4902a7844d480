"""Who has been silent for too long?"""

from cutwater.protocol.heartbeats import HeartbeatMonitor


def watching(**seen: float) -> HeartbeatMonitor[str]:
    monitor: HeartbeatMonitor[str] = HeartbeatMonitor(timeout_seconds=10)
    for who, now_seconds in seen.items():
        monitor.seen(who, now_seconds)
    return monitor


def test_silence_for_the_whole_timeout_expires():
    assert (watching(a=0).expired(9.9), watching(a=0).expired(10)) == ([], ["a"])


def test_a_sign_of_life_prolongs():
    monitor = watching(a=0)
    monitor.seen("a", 5)
    assert monitor.expired(14) == []


def test_the_longest_silence_comes_first():
    monitor = watching(a=0, b=1, c=2)
    monitor.seen("a", 3)
    assert monitor.expired(100) == ["b", "c", "a"]


def test_an_expiry_is_reported_once():
    monitor = watching(a=0)
    monitor.expired(10)
    assert (monitor.expired(20), monitor.wake_at()) == ([], None)


def test_whoever_left_in_good_order_does_not_expire():
    monitor = watching(a=0)
    monitor.forget("a")
    monitor.forget("stranger")
    assert monitor.expired(100) == []


def test_the_next_moment_to_look_is_the_earliest_expiry():
    assert (watching(a=3, b=1).wake_at(), watching().wake_at()) == (11, None)


def test_a_silence_with_a_reason_is_excused_some_times_in_a_row() -> None:
    monitor: HeartbeatMonitor[str] = HeartbeatMonitor(1.0)
    monitor.seen("a", 0.0)
    excused = [monitor.excuse("a", float(now)) for now in range(1, 20) if monitor.expired(float(now)) == ["a"]]
    assert excused == [True] * 9 + [False]


def test_after_a_sign_of_life_it_is_excused_anew() -> None:
    monitor: HeartbeatMonitor[str] = HeartbeatMonitor(1.0)
    for _ in range(9):
        assert monitor.excuse("a", 0.0)
    monitor.seen("a", 0.0)
    assert monitor.excuse("a", 0.0)

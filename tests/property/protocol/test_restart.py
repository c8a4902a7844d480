from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cutwater.protocol.restart import GiveUp, RestartAfter, exponential_delay, failure_rate, fixed_delay

gaps = st.lists(st.integers(0, 20), max_size=40)


@given(attempts=st.integers(0, 10), failures=st.integers(0, 15))
def test_a_fixed_delay_allows_exactly_its_attempts(attempts: int, failures: int) -> None:
    strategy = fixed_delay(attempts, 2).start(lambda: 0.5)
    decisions = [strategy.failed(now) for now in range(failures)]
    assert decisions[:attempts] == [RestartAfter(2)] * min(attempts, failures)
    assert all(isinstance(decision, GiveUp) for decision in decisions[attempts:])


@given(gaps=gaps, max_failures=st.integers(0, 5), interval=st.integers(1, 30))
def test_a_failure_rate_gives_up_exactly_when_an_interval_holds_too_many(
    gaps: list[int], max_failures: int, interval: int
) -> None:
    strategy = failure_rate(max_failures, interval, 1).start(lambda: 0.5)
    now, times = 0, []
    for gap in gaps:
        now += gap
        times.append(now)
        recent = sum(time > now - interval for time in times)
        assert isinstance(strategy.failed(now), GiveUp) == (recent > max_failures)


@given(gaps=gaps, randoms=st.lists(st.floats(0, 1, exclude_max=True), min_size=40, max_size=40))
def test_exponential_delays_stay_within_their_band_and_start_over_after_a_long_run(
    gaps: list[int], randoms: list[float]
) -> None:
    draws = iter(randoms)
    strategy = exponential_delay(1, 30, 2, 0.2, reset_after_seconds=10).start(lambda: next(draws))
    now, expected = 0.0, 1.0
    for ran in gaps:
        since = now
        strategy.running(since)
        now += ran
        if now - since >= 10:
            expected = 1.0
        decision = strategy.failed(now)
        assert isinstance(decision, RestartAfter)
        assert min(expected * 0.8, 30) <= decision.delay_seconds <= min(expected * 1.2, 30)
        expected = min(expected * 2, 30)
        now += decision.delay_seconds

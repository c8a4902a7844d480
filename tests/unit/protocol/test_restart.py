"""Does a job that failed start again, and when?"""

import pytest

from cutwater.errors import ConfigurationError
from cutwater.protocol import restart
from cutwater.protocol.restart import GiveUp, RestartAfter, Unspecified


def middle() -> float:
    return 0.5


def test_without_a_strategy_the_first_failure_is_the_last():
    assert restart.none().start(middle).failed(0) == GiveUp("the job has no restart strategy")


def test_a_fixed_delay_restarts_so_many_times():
    strategy = restart.fixed_delay(attempts=2, delay_seconds=10).start(middle)
    assert [strategy.failed(now) for now in (0, 1, 2)] == [
        RestartAfter(10),
        RestartAfter(10),
        GiveUp("all 2 restarts are used up"),
    ]


def test_a_failure_rate_gives_up_when_failures_come_too_fast():
    strategy = restart.failure_rate(max_failures=2, interval_seconds=60, delay_seconds=1).start(middle)
    assert [strategy.failed(now) for now in (0, 30, 59)] == [
        RestartAfter(1),
        RestartAfter(1),
        GiveUp("3 failures within 60 s, 2 are allowed"),
    ]


def test_a_failure_rate_forgets_failures_outside_the_interval():
    strategy = restart.failure_rate(max_failures=1, interval_seconds=60, delay_seconds=1).start(middle)
    assert [strategy.failed(now) for now in (0, 60, 120)] == [RestartAfter(1)] * 3


def exponential(**options: float) -> restart.RestartSpecification:
    defaults = {
        "initial_seconds": 1,
        "max_seconds": 5,
        "multiplier": 2,
        "jitter": 0,
        "reset_after_seconds": 100,
        "attempts": None,
    }
    return restart.exponential_delay(**{**defaults, **options})


def test_an_exponential_delay_grows_up_to_its_limit():
    strategy = exponential().start(middle)
    assert [strategy.failed(now).delay_seconds for now in range(4)] == [1, 2, 4, 5]


@pytest.mark.parametrize(("drawn", "delay_seconds"), [(0, 0.9), (0.5, 1.0), (1, 1.1)])
def test_jitter_spreads_the_delay_both_ways(drawn: float, delay_seconds: float):
    assert exponential(jitter=0.1).start(lambda: drawn).failed(0).delay_seconds == pytest.approx(delay_seconds)


def test_jitter_never_exceeds_the_limit():
    assert exponential(initial_seconds=5, jitter=0.5).start(lambda: 1).failed(0) == RestartAfter(5)


def test_a_job_that_ran_for_long_starts_with_the_first_delay_again():
    strategy = exponential(attempts=1).start(middle)
    strategy.failed(0)
    strategy.running(1)
    assert strategy.failed(101) == RestartAfter(1)


def test_a_short_run_late_in_the_life_of_a_job_resets_nothing():
    strategy = exponential().start(middle)
    strategy.failed(999)
    strategy.running(1000)
    assert strategy.failed(1001) == RestartAfter(2)


def test_the_time_between_failures_does_not_count_as_running():
    strategy = exponential().start(middle)
    strategy.running(0)
    strategy.failed(1)
    assert strategy.failed(500) == RestartAfter(2)


def test_an_exponential_delay_gives_up_after_its_attempts():
    strategy = exponential(attempts=1).start(middle)
    strategy.failed(0)
    assert strategy.failed(1) == GiveUp("all 1 restarts are used up")


def test_two_jobs_of_one_specification_count_apart():
    specification = restart.fixed_delay(attempts=1, delay_seconds=0)
    specification.start(middle).failed(0)
    assert specification.start(middle).failed(0) == RestartAfter(0)


@pytest.mark.parametrize(
    "make",
    [
        lambda: restart.fixed_delay(-1, 0),
        lambda: restart.failure_rate(1, 0, 0),
        lambda: exponential(multiplier=0.5),
        lambda: exponential(initial_seconds=9),
    ],
)
def test_a_strategy_that_can_not_work_is_refused(make):
    with pytest.raises(ConfigurationError):
        make()


def test_without_a_word_of_the_author_code_that_raises_is_tried_once() -> None:
    strategy = Unspecified(has_storage=False).start(lambda: 0.5)
    assert isinstance(strategy.failed(0, "boom"), GiveUp)


def test_with_a_storage_the_same_failure_ends_the_job_when_it_comes_twice_in_a_row() -> None:
    strategy = Unspecified(has_storage=True).start(lambda: 0.5)
    assert strategy.failed(0, "boom") == RestartAfter(10)
    assert strategy.failed(1, "") == RestartAfter(10)
    assert strategy.failed(2, "boom") == RestartAfter(10)
    assert isinstance(strategy.failed(3, "boom"), GiveUp)


def test_other_failures_get_three_more_chances() -> None:
    strategy = Unspecified(has_storage=False).start(lambda: 0.5)
    assert [strategy.failed(now) for now in range(3)] == [RestartAfter(10)] * 3
    assert isinstance(strategy.failed(3), GiveUp)

from __future__ import annotations

import pytest

from cutwater.serving.sessions import CODE_SECONDS, CODES_MAX, SESSION_SECONDS, SESSIONS_MAX, Sessions
from cutwater.serving.tokens import Access


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def sessions(clock: Clock) -> Sessions:
    return Sessions(clock)


@pytest.mark.parametrize("access", list(Access))
def test_a_session_may_do_what_its_token_may(sessions: Sessions, access: Access) -> None:
    assert sessions.access_of(sessions.begin(access)) is access


def test_a_session_ends_after_half_a_day(sessions: Sessions, clock: Clock) -> None:
    session = sessions.begin(Access.CHANGE)
    clock.now = SESSION_SECONDS - 1
    assert sessions.access_of(session) is Access.CHANGE
    clock.now = SESSION_SECONDS
    assert sessions.access_of(session) is None


def test_who_signs_out_is_out(sessions: Sessions) -> None:
    mine, other = sessions.begin(Access.CHANGE), sessions.begin(Access.CHANGE)
    sessions.end(mine)
    assert (sessions.access_of(mine), sessions.access_of(other)) == (None, Access.CHANGE)


def test_of_too_many_sessions_the_oldest_ends(sessions: Sessions) -> None:
    begun = [sessions.begin(Access.READ) for _ in range(SESSIONS_MAX + 2)]
    assert [each for each in begun if sessions.access_of(each) is None] == begun[:2]


def test_a_code_is_good_once(sessions: Sessions) -> None:
    code = sessions.new_code(Access.READ)
    assert (sessions.redeem(code), sessions.redeem(code)) == (Access.READ, None)


def test_a_code_is_good_for_a_minute(sessions: Sessions, clock: Clock) -> None:
    code = sessions.new_code(Access.CHANGE)
    clock.now = CODE_SECONDS
    assert sessions.redeem(code) is None


def test_of_too_many_codes_the_oldest_ends(sessions: Sessions) -> None:
    codes = [sessions.new_code(Access.CHANGE) for _ in range(CODES_MAX + 1)]
    assert sessions.redeem(codes[0]) is None
    assert sessions.redeem(codes[-1]) is Access.CHANGE


def test_codes_are_no_sessions_and_sessions_are_no_codes(sessions: Sessions) -> None:
    assert sessions.access_of(sessions.new_code(Access.CHANGE)) is None
    assert sessions.redeem(sessions.begin(Access.CHANGE)) is None

"""However many ask, the service takes a part of one processor."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from cutwater.serving.access import Guard
from cutwater.serving.pacing import SAVED_SECONDS, SHARE_MAX, Pace
from cutwater.serving.sessions import Sessions
from cutwater.serving.tokens import Tokens


def test_a_flood_of_requests_takes_no_more_than_its_share() -> None:
    """Each costs a millisecond, and asks again as soon as it is answered."""
    pace, now, used = Pace(), 100.0, 0.0
    for _ in range(10_000):
        now += pace.delay_seconds(now=now, used=used) + 0.001
        used += 0.001
    assert used / (now - 100.0) == pytest.approx(SHARE_MAX, rel=0.05)


def test_many_who_ask_at_once_get_their_turns_one_behind_the_other() -> None:
    pace, used = Pace(), 0.0
    for step in range(1_000):  # what one costs is known by then, and nothing is saved
        used += 0.001
        pace.delay_seconds(now=step * 0.001, used=used)
    delays = []
    for _ in range(3):
        used += 0.001
        delays.append(pace.delay_seconds(now=1.0, used=used))
    apart = 0.001 / SHARE_MAX
    assert [later - sooner for sooner, later in pairwise(delays)] == [pytest.approx(apart)] * 2


def test_a_page_that_is_opened_now_and_then_waits_for_nothing() -> None:
    pace, used = Pace(), 0.0
    for minute in range(10):
        for request in range(30):
            used += 0.002
            assert pace.delay_seconds(now=minute * 60 + request * 0.01, used=used) == 0
    assert SAVED_SECONDS * SHARE_MAX > 30 * 0.002


class TimersCounted(asyncio.SelectorEventLoop):
    timers = 0

    def call_at(self, *arguments: Any, **named: Any) -> asyncio.TimerHandle:
        self.timers += 1
        return super().call_at(*arguments, **named)


@pytest.mark.threads
def test_those_who_wait_sleep_until_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds that look for it again and again would use up the share, and get no answer."""
    monkeypatch.setattr(Pace, "delay_seconds", lambda self, **times: 0.7)
    loop, pace = TimersCounted(), Pace()

    async def all_wait() -> None:
        await asyncio.gather(*(pace.turn() for _ in range(20)))

    loop.run_until_complete(all_wait())
    loop.close()
    assert loop.timers == 20


def test_an_order_does_not_wait_behind_those_who_look() -> None:
    pace = TurnsCounted()
    tokens = Tokens("the token for everything", "the token for looking")
    guard = Guard(answered, tokens, Sessions(), Response(), pace)
    asked = [
        ("POST", "the token for everything"),
        ("GET", "the token for everything"),
        ("POST", "the token for looking"),
        ("POST", "a wrong token"),
    ]
    waited = []
    for method, token in asked:
        before = pace.turns
        asyncio.run(ask(guard, method, token))
        waited.append(pace.turns - before)
    assert waited == [0, 1, 1, 1]


class TurnsCounted(Pace):
    turns = 0

    async def turn(self) -> None:
        self.turns += 1


async def answered(scope: Scope, receive: Receive, send: Send) -> None:
    await Response()(scope, receive, send)


async def ask(app: ASGIApp, method: str, token: str) -> None:
    headers = [(b"authorization", f"Bearer {token}".encode())]
    scope = {"type": "http", "method": method, "path": "/jobs", "query_string": b"", "headers": headers}

    async def nothing(*_: Any) -> Any:
        return {"type": "http.request", "body": b""}

    await app(scope, nothing, nothing)

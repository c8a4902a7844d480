"""When is a silent connection asked, and when is it suspected?"""

from __future__ import annotations

from collections.abc import Iterable

from cutwater.protocol.connection_liveness import ConnectionLiveness, Effect, Looked, SendPing, SuspectConnection

TIMEOUT_SECONDS = 30.0


def effects_of(looks: Iterable[tuple[float, int | None]]) -> list[tuple[float, Effect]]:
    """What a machine does when it looks at these moments and finds so many signs of life."""
    liveness = ConnectionLiveness(TIMEOUT_SECONDS)
    return [(now, effect) for now, signs in looks for effect in liveness.handle(Looked(now, signs))]


def every_second(signs: Iterable[int | None]) -> list[tuple[float, int | None]]:
    return [(float(now), count) for now, count in enumerate(signs)]


def test_no_ping_is_sent_while_records_flow() -> None:
    assert effects_of(every_second(range(300))) == []


def test_a_silent_connection_is_asked_once_then_suspected_once() -> None:
    assert effects_of(every_second([5] * 100)) == [(10.0, SendPing()), (30.0, SuspectConnection(30.0))]


def test_an_answer_clears_the_silence() -> None:
    answered = [0] * 12 + [1] * 9
    assert effects_of(every_second(answered)) == [(10.0, SendPing())]


def test_every_new_silence_is_asked_about() -> None:
    idle = [count for count in range(5) for _ in range(12)]
    assert [effect for _, effect in effects_of(every_second(idle))] == [SendPing()] * 5


def test_a_connection_that_has_ended_or_broken_is_left_alone() -> None:
    assert effects_of(every_second([None] * 100)) == []


def test_a_long_call_of_our_own_is_no_silence_of_the_other_end() -> None:
    # A minute inside a user's function, again and again: each time the other end gets its chance to answer.
    assert effects_of([(0.0, 0), (60.0, 0), (120.0, 0), (121.0, 1), (181.0, 1), (241.0, 1), (242.0, 2)]) == [
        (120.0, SendPing()),
        (241.0, SendPing()),
    ]


def test_a_loop_of_long_calls_still_finds_a_connection_that_hangs() -> None:
    looks: list[tuple[float, int | None]] = [(20.0 * turn, 0) for turn in range(10)]
    assert effects_of(looks) == [(40.0, SendPing()), (120.0, SuspectConnection(30.0))]

"""In which order do the results of calls leave?"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cutwater.operators.call_order import AsCompleted, Call, CallOrder, InOrder

ORDERS = [InOrder, AsCompleted]


def calls(*records: str) -> list[Call]:
    return [Call(record, None) for record in records]


def watermark() -> None:
    """Stands for one."""


def leaving(order: CallOrder) -> list[str]:
    return [item.record if isinstance(item, Call) else "mark" for item in order.leaving()]


def finished(order: CallOrder, *done: Call) -> list[str]:
    for call in done:
        order.finished(call)
    return leaving(order)


def test_in_order_a_result_waits_for_those_before_it() -> None:
    order = InOrder()
    a, b, c = calls("a", "b", "c")
    for call in (a, b, c):
        order.add(call)
    assert [finished(order, b), finished(order, a), finished(order, c)] == [[], ["a", "b"], ["c"]]


def test_as_completed_a_result_waits_for_none() -> None:
    order = AsCompleted()
    a, b = calls("a", "b")
    order.add(a)
    order.add(b)
    assert [finished(order, b), finished(order, a)] == [["b"], ["a"]]


@pytest.mark.parametrize("kind", ORDERS)
def test_a_mark_leaves_when_all_calls_before_it_have(kind: Callable[[], CallOrder]) -> None:
    order = kind()
    a, b = calls("a", "b")
    order.add(a)
    order.add(b)
    order.mark(watermark)
    assert [finished(order, a), finished(order, b)] == [["a"], ["b", "mark"]]


@pytest.mark.parametrize("kind", ORDERS)
def test_no_call_leaves_before_a_mark_that_it_came_behind(kind: Callable[[], CallOrder]) -> None:
    order = kind()
    a, b = calls("a", "b")
    order.add(a)
    order.mark(watermark)
    order.mark(watermark)
    order.add(b)
    assert [finished(order, b), finished(order, a)] == [[], ["a", "mark", "mark", "b"]]


@pytest.mark.parametrize("kind", ORDERS)
def test_calls_are_pending_until_they_have_left(kind: Callable[[], CallOrder]) -> None:
    order = kind()
    a, b, c = calls("a", "b", "c")
    order.add(a)
    order.mark(watermark)
    order.add(b)
    order.add(c)
    order.finished(c)
    before = [call.record for call in order.pending()], len(order)
    finished(order, a)
    assert (before, len(order)) == ((["a", "b", "c"], 3), 2 if kind is InOrder else 1)

from __future__ import annotations

from cutwater.protocol.state_layout import LayoutChange, layout_change

BEFORE = (("cents", "sum of cents"), ("grams", "sum of grams"))


def test_another_order_is_no_change() -> None:
    assert layout_change(BEFORE, BEFORE[::-1]) == LayoutChange((), (), ())


def test_what_came_and_what_went_is_named() -> None:
    now = (("cents", "sum of cents"), ("n", "count"))
    assert layout_change(BEFORE, now) == LayoutChange(added=("n",), removed=("grams",), changed=())


def test_the_same_name_for_something_else_is_a_change() -> None:
    now = (("cents", "sum of grams"), ("grams", "sum of grams"))
    assert layout_change(BEFORE, now) == LayoutChange((), (), (("cents", "sum of cents", "sum of grams"),))


def test_what_a_function_picks_may_be_the_same_as_before() -> None:
    now = (("cents", "sum"), ("grams", "max"))
    assert layout_change(BEFORE, now).changed == (("grams", "sum of grams", "max"),)

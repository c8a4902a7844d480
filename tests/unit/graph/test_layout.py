from __future__ import annotations

from itertools import pairwise

from cutwater.graph.layout import Box, Link, lay_out


def _link(sender: int, receiver: int) -> Link:
    return Link(sender, receiver, exit_offset=20, entry_offset=20, label_width=50)


def test_a_reader_stands_right_of_what_it_reads() -> None:
    layout = lay_out([Box(100, 40), Box(100, 40)], [_link(0, 1)])
    assert layout.corners[1][0] >= layout.corners[0][0] + 100 + 50


def test_a_line_of_boxes_is_level() -> None:
    layout = lay_out([Box(100, 40)] * 4, [_link(0, 1), _link(1, 2), _link(2, 3)])
    assert {y for _, y in layout.corners} == {0}


def test_boxes_of_a_layer_do_not_overlap() -> None:
    layout = lay_out([Box(100, 40)] * 5, [_link(0, 4), _link(1, 4), _link(2, 4), _link(3, 4)])
    tops = sorted(y for _, y in layout.corners[:4])
    assert all(lower - upper >= 40 for upper, lower in pairwise(tops))


def test_a_source_stands_next_to_its_first_reader() -> None:
    layout = lay_out([Box(100, 40)] * 4, [_link(0, 2), _link(2, 3), _link(1, 3)])
    assert layout.corners[1][0] == layout.corners[2][0]


def test_an_arrow_past_a_layer_keeps_clear_of_its_boxes() -> None:
    layout = lay_out([Box(100, 40)] * 3, [_link(0, 1), _link(1, 2), _link(0, 2)])
    route = layout.routes[2]
    middle_top = layout.corners[1][1]
    assert len(route) == 4
    assert not middle_top <= route[1][1] <= middle_top + 40

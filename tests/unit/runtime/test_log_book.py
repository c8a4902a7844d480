"""Which lines does the driver remember?"""

from __future__ import annotations

from cutwater.runtime.log_book import LogBook


def filled(count: int) -> LogBook:
    book = LogBook(lines_max=3)
    for number in range(1, count + 1):
        book.add(at_ms=0, level="INFO", logger="jobs", text=f"line {number}")
    return book


def test_the_newest_are_kept_under_numbers_that_go_on() -> None:
    assert [(line.number, line.text) for line in filled(5).after(0)] == [(3, "line 3"), (4, "line 4"), (5, "line 5")]


def test_a_reader_goes_on_where_it_was() -> None:
    assert [line.number for line in filled(5).after(4)] == [5]
    assert filled(5).after(5) == filled(5).after(99) == ()

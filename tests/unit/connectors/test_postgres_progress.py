"""Rows that are read and changes of the log become one story, whichever comes first."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from cutwater.connectors.postgres.pgoutput import Changed
from cutwater.connectors.postgres.progress import Change, Logged, Moment, Part, Place, Progress, Reconciliation
from cutwater.connectors.postgres.replication import end_of_log, text_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
#: 11 and 13 had not ended, nor had 14 and what came after it.
MOMENT = "10:14:11,13"
SEEN, UNSEEN = 12, 13
#: Rows up to 10 were read before, up to 20 at the moment above; the log has not caught up with it.
PROGRESS = Progress([("public", "now"), ("shop", "later")], ["10"], Part(["20"], MOMENT, lsn=100), rows=20)
READ, IN_PART, AHEAD = 5, 15, 25


def places(keys):
    numbers = [int(number) for (number,) in keys]
    return [Place.READ if n <= 10 else Place.IN_PART if n <= 20 else Place.AHEAD for n in numbers]


def logged(op, *, old=None, new=None, transaction=UNSEEN, table="now"):
    before, after = ({"id": id_} if id_ is not None else None for id_ in (old, new))
    keys = ((str(id_),) if id_ is not None else None for id_ in (old, new))
    return Logged(Changed(op, table, before, after, *keys), Change(op, table, before, after, 1, 1, NOW), transaction)


def judged(*changes, progress=PROGRESS):
    """What goes on, and what the next part must see."""
    reconciliation = Reconciliation(())
    _, found = reconciliation.judge(progress, changes, places)
    return [(change.op, change.before, change.after) for change in found], reconciliation.must_see


@pytest.mark.parametrize(
    ("row", "transaction", "goes_on", "must_see"),
    [
        (READ, SEEN, True, set()),
        (READ, UNSEEN, True, set()),
        (IN_PART, SEEN, False, set()),
        (IN_PART, UNSEEN, True, set()),
        (AHEAD, SEEN, False, {SEEN}),
        (AHEAD, UNSEEN, False, {UNSEEN}),
    ],
)
def test_a_change_goes_on_if_its_row_was_read_without_it(row, transaction, goes_on, must_see):
    found = judged(logged("insert", new=row, transaction=transaction))
    assert found == ([("insert", None, {"id": row})] if goes_on else [], must_see)


@pytest.mark.parametrize(
    ("old", "new", "transaction", "expected"),
    [
        (READ, IN_PART, UNSEEN, ("update", {"id": READ}, {"id": IN_PART})),
        (READ, IN_PART, SEEN, ("delete", {"id": READ}, None)),
        (READ, AHEAD, UNSEEN, ("delete", {"id": READ}, None)),
        (IN_PART, READ, SEEN, ("insert", None, {"id": READ})),
        (AHEAD, READ, UNSEEN, ("insert", None, {"id": READ})),
        (AHEAD, IN_PART, SEEN, None),
    ],
)
def test_a_row_that_gets_another_key_leaves_one_place_and_comes_to_another(old, new, transaction, expected):
    found, _ = judged(logged("update", old=old, new=new, transaction=transaction))
    assert found == ([] if expected is None else [expected])


def test_changes_of_tables_that_come_later_are_dropped_and_those_of_others_go_on():
    found, must_see = judged(logged("insert", new=1, table="shop.later"), logged("insert", new=2, table="read before"))
    assert (found, must_see) == ([("insert", None, {"id": 2})], {UNSEEN})


def test_a_truncated_table_is_read_anew():
    reconciliation = Reconciliation(())
    changes = [logged("insert", new=1), logged("truncate"), logged("insert", new=2)]
    progress, found = reconciliation.judge(PROGRESS, changes, places)
    assert ([change.op for change in found], progress) == (["insert", "truncate"], Progress(PROGRESS.tables, rows=20))


def test_of_a_table_that_was_truncated_before_anything_was_read_nothing_is_told():
    assert judged(logged("truncate"), progress=Progress(PROGRESS.tables)) == ([], {UNSEEN})


def test_a_part_must_see_what_was_dropped_for_it():
    reconciliation = Reconciliation({12})
    assert [reconciliation.allows(Moment.of(text)) for text in ("12:12:", "10:14:12", "10:14:11")] == [
        False,
        False,
        True,
    ]


def test_the_log_knows_the_lower_half_of_a_number():
    moment = Moment.of(f"{(7 << 32) - 2}:{(7 << 32) + 2}:{7 << 32}")
    assert [moment.sees(number % (1 << 32)) for number in (-3, -1, 0, 1, 2)] == [True, True, False, True, False]


def test_the_progress_moves_on_when_the_log_has_caught_up():
    part = PROGRESS.caught_up(100)
    assert (PROGRESS.caught_up(99), part) == (PROGRESS, Progress(PROGRESS.tables, ["20"], rows=20))


def test_behind_the_last_part_comes_the_next_table_and_behind_the_last_table_the_end():
    last = Part(None, MOMENT, lsn=100)
    tables = PROGRESS.tables
    assert Progress(tables, ["10"], last, rows=9).caught_up(100) == Progress(tables[1:], rows=9)
    assert Progress(tables[1:], ["10"], last).caught_up(100) is None


@pytest.mark.parametrize(
    ("insert_lsn", "end"),
    [(0x2000100, 0x2000100), (0x2002018, 0x2002000), (0x2002028, 0x2002028), (0x3000028, 0x3000000)],
)
def test_the_log_ends_in_front_of_the_header_of_a_page_that_is_empty(insert_lsn, end):
    assert end_of_log(text_of(insert_lsn), 8192, 1 << 24) == end

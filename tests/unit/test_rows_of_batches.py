"""What is a row, and what does it cost to send?"""

from __future__ import annotations

import copy
import pickle

import cloudpickle
import pytest

from cutwater.batches import ObjectBatch, Row, make_row, packed, row_maker
from cutwater.connectors.bases.json_values import json_values
from cutwater.connectors.column_formats import as_columns
from cutwater.protocol.key_groups import canonical_bytes
from cutwater.runtime.flight.wire import from_metadata, to_frame
from cutwater.state.copies import copied_values
from cutwater.state.values import class_in

ROW = make_row(("key", "count"), ("a", 1))


def test_a_row_unpacks_compares_and_hashes_like_the_tuple_of_its_values() -> None:
    key, count = ROW
    assert (key, count) == ROW == ("a", 1)
    assert hash(ROW) == hash(("a", 1))
    assert canonical_bytes(ROW) == canonical_bytes(("a", 1))


def test_a_row_has_names() -> None:
    assert (ROW.key, ROW.count) == ("a", 1)
    assert ROW._asdict() == {"key": "a", "count": 1}
    assert repr(ROW) == "Row(key='a', count=1)"
    assert ROW._replace(count=2) == ("a", 2)
    match ROW:
        case Row():
            pass


@pytest.mark.parametrize("dumps", [pickle.dumps, cloudpickle.dumps])
def test_a_row_is_the_same_after_its_way_through_a_pickle(dumps: object) -> None:
    again = pickle.loads(dumps(ROW))  # type: ignore[operator]
    assert again == ROW
    assert again.count == 1
    assert copy.deepcopy(ROW).key == "a"


def test_names_that_python_cannot_use_are_positions_and_survive_a_pickle() -> None:
    row = make_row(("unit price", "n"), (5, 1))
    assert row._fields == ("_0", "n")
    again = pickle.loads(pickle.dumps(row))
    assert again._asdict() == {"unit price": 5, "n": 1}
    assert (again._0, getattr(again, "unit price")) == (5, 5)


@pytest.mark.parametrize("name", ["_id", "class", "unit price", "_fields", "_asdict", "__reduce__", "index"])
def test_a_column_is_called_the_same_in_json_and_in_files(name: str) -> None:
    row = make_row((name, "n"), (5, 1))
    assert json_values([row]) == [as_columns(row)] == [{name: 5, "n": 1}]
    assert pickle.loads(pickle.dumps(row)) == row


def test_two_columns_of_one_name_are_both_there() -> None:
    row = make_row(("n", "n"), (5, 1))
    assert row._asdict() == {"n": 5, "_1": 1}
    assert row.n == 5


def test_rows_of_one_kind_name_their_fields_once_on_the_wire() -> None:
    rows = list(map(row_maker(("key", "count")), zip("ab", (1, 2), strict=True)))
    frame, _ = to_frame(ObjectBatch(rows))
    assert isinstance(frame, bytes)
    assert frame.count(b"count") == 1
    received = from_metadata(frame)
    assert received == ObjectBatch(rows)
    assert isinstance(received, ObjectBatch)
    assert [row.count for row in received.values] == [1, 2]


def test_records_of_several_kinds_are_sent_as_they_are() -> None:
    mixed = [ROW, ("b", 2)]
    assert packed(mixed) is mixed
    assert packed([]) == []


def test_rows_of_plain_values_are_shared_and_need_no_class_to_be_read() -> None:
    rows = [ROW, ROW]
    assert copied_values(rows) is rows
    assert class_in(ROW) is None

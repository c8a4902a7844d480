from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

from cutwater.batches import ObjectBatch, make_row
from cutwater.connectors.bases.json_values import json_values
from cutwater.connectors.bases.payloads import encoded
from cutwater.connectors.file_formats import JsonLinesEncoder


class Point(NamedTuple):
    x: int
    y: int


@dataclass
class Named:
    name: str


COUNTED = make_row(("key", "count"), ("a", 1))


@pytest.mark.parametrize(
    ("record", "line"),
    [
        (COUNTED, b'{"key":"a","count":1}'),
        ((COUNTED, Point(1, 2)), b'[{"key":"a","count":1},{"x":1,"y":2}]'),
        ({"at": Point(1, 2), "all": [Point(3, 4)]}, b'{"at":{"x":1,"y":2},"all":[{"x":3,"y":4}]}'),
        (Named("a"), b'{"name":"a"}'),
        (("a", 1), b'["a",1]'),
        (7, b"7"),
    ],
)
def test_named_records_are_objects_in_json_wherever_they_stand(record: Any, line: bytes) -> None:
    batch = ObjectBatch([record])
    assert JsonLinesEncoder().encode(batch) == line + b"\n"
    assert encoded(batch) == [line]


def test_plain_dicts_are_handed_on_as_they_are() -> None:
    records = [{"a": 1}, {"b": "c"}]
    assert json_values(records) is records

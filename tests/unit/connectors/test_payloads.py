from __future__ import annotations

import pyarrow as pa
import pytest

from cutwater.batches import ObjectBatch
from cutwater.connectors.bases.payloads import encoded
from cutwater.errors import SchemaError

SCHEMA = pa.schema([("n", pa.int64()), ("s", pa.string())])


def test_values_become_payloads() -> None:
    assert encoded(ObjectBatch([b"\xff", "ä", {"n": 1}, 7])) == [b"\xff", "ä".encode(), b'{"n":1}', b"7"]


def test_rows_become_json_objects() -> None:
    assert encoded(pa.record_batch([[1], ["a"]], schema=SCHEMA)) == [b'{"n":1,"s":"a"}']


def test_a_value_that_is_not_json_is_shown() -> None:
    with pytest.raises(SchemaError, match="can't be sent as JSON"):
        encoded(ObjectBatch([object()]))

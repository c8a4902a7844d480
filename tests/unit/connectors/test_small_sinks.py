from __future__ import annotations

import pickle

import cloudpickle
import pyarrow as pa
import pytest

from cutwater.batches import ObjectBatch
from cutwater.connectors import sinks
from cutwater.connectors.contract import Delivery, WriterContext
from cutwater.errors import ConfigurationError, UserFunctionError
from cutwater.protocol.ids import AttemptNumber

TYPED = pa.RecordBatch.from_pydict({"n": [1, 2], "s": ["x", "y"]})


def open_writer(sink):
    """A writer in a slot, whose reports reach the driver's sink."""
    in_slot = pickle.loads(cloudpickle.dumps(sink))
    return in_slot.writer(WriterContext("job", "out", 0, 1, AttemptNumber(0), report=sink.receive))


def test_records_are_printed_in_the_driver(capsys):
    writer = open_writer(sinks.stdout())
    writer.write(ObjectBatch(["one", 2]))
    writer.write(TYPED)
    assert capsys.readouterr().out == "one\n2\nRow(n=1, s='x')\nRow(n=2, s='y')\n"


def test_a_prefix_tells_printers_apart(capsys):
    open_writer(sinks.stdout("left")).write(ObjectBatch([1]))
    assert capsys.readouterr().out == "left> 1\n"


def test_the_function_gets_lists_of_values():
    seen = []
    sink = sinks.function(seen.append)
    writer = sink.writer(WriterContext("job", "out", 0, 1, AttemptNumber(0)))
    writer.write(ObjectBatch([1, 2]))
    writer.write(TYPED)
    assert seen == [[1, 2], [(1, "x"), (2, "y")]]


def test_a_raising_function_is_named():
    def consume(values):
        raise ValueError("no")

    writer = open_writer(sinks.function(consume))
    writer.write(ObjectBatch([1, 2]))
    with pytest.raises(UserFunctionError, match=r"function\(consume\) raised ValueError: no") as caught:
        writer.has_room()
    place, given = caught.value.detail.splitlines()
    assert __file__ in place
    assert "2 records" in given


@pytest.mark.parametrize(("idempotent", "delivery"), [(False, Delivery.PLAIN), (True, Delivery.IDEMPOTENT)])
def test_the_user_says_whether_the_function_may_be_repeated(idempotent, delivery):
    sink = sinks.function(len, idempotent=idempotent)
    assert pickle.loads(pickle.dumps(sink)).delivery is delivery


def test_what_cannot_be_called_is_refused():
    with pytest.raises(ConfigurationError):
        sinks.function(len([]))


def test_discarded_records_are_counted_in_the_driver():
    sink = sinks.discard()
    writer = open_writer(sink)
    writer.write(ObjectBatch([1, 2]))
    writer.write(TYPED)
    writer.flush()
    writer.flush()
    assert sink.records == 4

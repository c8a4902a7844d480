"""How does an element look on the wire?

A record batch travels as Arrow. Everything else is the metadata of a message without a batch: values (with their
times, if they have any) as one pickle (its first byte is 0x80), the rest as a small msgpack array. (Values in a binary
column instead of the metadata made no clear difference: pickling is what costs.)
"""

from __future__ import annotations

import pickle
from typing import Any, TypeAlias, assert_never

import cloudpickle
import msgspec
import numpy as np
import pyarrow as pa

from cutwater.batches import ObjectBatch, packed
from cutwater.errors import SerializationError
from cutwater.protocol.elements import Barrier, Control, EndOfInput, Idle, Watermark
from cutwater.protocol.ids import CheckpointId
from cutwater.runtime.seams import Element

PICKLE_FIRST_BYTE = b"\x80"
CONTROL_BYTES = 64
"""What a control element counts for in a bounded queue."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[str, int, str]).decode

PING = _encode(("ping", 0, ""))
HERE = _encode(("here", 0, ""))
"""The answer to a ping."""
ACCEPTED = _encode(("accepted", 0, ""))

Frame: TypeAlias = pa.RecordBatch | bytes


def to_frame(element: Element) -> tuple[Frame, int]:
    """What to write, and how many bytes it counts for."""
    match element:
        case pa.RecordBatch():
            return element, element.nbytes + CONTROL_BYTES
        case ObjectBatch(values=values, times=times):
            rows = packed(values)
            frame = _pickled(rows if times is None else (rows, times))
            return frame, len(frame)
        case Barrier() | Watermark() | Idle() | EndOfInput():
            return _control_frame(element), CONTROL_BYTES
        case _:
            assert_never(element)


def from_metadata(metadata: bytes | pa.Buffer) -> Element:
    """The element that a message without a batch stands for."""
    view = memoryview(metadata).cast("B")  # Arrow's buffers are signed
    if view[:1] == PICKLE_FIRST_BYTE:
        return _batch_of(_unpickled(view))
    try:
        kind, value, text = _decode(view)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SerializationError("something arrived that is no element", detail=str(error)) from error
    match kind:
        case "barrier":
            return Barrier(CheckpointId(value), text)
        case "watermark":
            return Watermark(value)
        case "idle":
            return Idle()
        case "end":
            return EndOfInput(complete=bool(value))
        case _:
            raise SerializationError(f'an element of the unknown kind "{kind}" arrived')


def _control_frame(element: Control) -> bytes:
    match element:
        case Barrier(checkpoint=checkpoint, savepoint=savepoint):
            return _encode(("barrier", checkpoint, savepoint))
        case Watermark(timestamp_ms=timestamp):
            return _encode(("watermark", timestamp, ""))
        case Idle():
            return _encode(("idle", 0, ""))
        case EndOfInput(complete=complete):
            return _encode(("end", int(complete), ""))
        case _:
            assert_never(element)


def _pickled(values: Any) -> bytes:
    try:
        return pickle.dumps(values, protocol=5)
    except Exception:  # pickling runs the users' code
        # A class of the user's script exists by value only: plain pickle can't find it by name, cloudpickle can.
        try:
            result: bytes = cloudpickle.dumps(values, protocol=5)
            return result
        except Exception as error:
            raise SerializationError(
                "records can't be sent to another task",
                detail=f"{type(error).__name__}: {error}",
                hint="emit values that pickle can copy: no open files, locks, connections or generators",
            ) from error


def _batch_of(records: Any) -> ObjectBatch:
    match records:
        case list():
            return ObjectBatch(records)
        case (list(), np.ndarray()):
            return ObjectBatch(*records)
        case _:
            raise SerializationError("something arrived that is no batch of records", detail=type(records).__name__)


def _unpickled(view: memoryview) -> Any:
    try:
        return pickle.loads(view)  # from a slot that showed the attempt's token
    except Exception as error:
        raise SerializationError(
            "records from another task can't be read",
            detail=f"{type(error).__name__}: {error}",
            hint="the classes of the records must be importable on every executor",
        ) from error

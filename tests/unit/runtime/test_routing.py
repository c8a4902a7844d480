"""What leaves a channel's buffer together?"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cutwater.batches import TIME_METADATA, Batch, ObjectBatch, rows_of, times_of
from cutwater.runtime.routing import BufferedChannel


class Sent(list[Any]):
    """A channel that keeps what was sent."""

    def send(self, element: Any) -> None:
        self.append(element)

    def has_room(self) -> bool:
        return True


def typed(time_column: str, **columns: list[Any]) -> pa.RecordBatch:
    batch = pa.record_batch(columns)
    return batch.replace_schema_metadata({TIME_METADATA: time_column.encode()})


def timed(*values: Any, times: list[int] | None) -> ObjectBatch:
    return ObjectBatch(list(values), None if times is None else np.array(times))


@pytest.mark.parametrize(
    ("parts", "sent"),
    [
        ([typed("t", t=[1], u=[9]), typed("t", t=[2], u=[8])], 1),
        ([typed("t", t=[1], u=[9]), typed("u", t=[2], u=[8])], 2),
        ([typed("t", t=[1], u=[9]), typed("t", t=[2])], 2),
        ([typed("t", t=[1]), timed({"t": 2}, times=[2])], 2),
        ([timed("a", times=[1]), timed("b", times=None)], 2),
        ([timed("a", times=[1]), timed("b", times=[2])], 1),
    ],
)
def test_batches_of_united_streams_keep_their_columns_and_times(parts: list[Batch], sent: int) -> None:
    channel = Sent()
    buffered = BufferedChannel(channel)
    for part in parts:
        buffered.add(part)
    buffered.flush()
    assert len(channel) == sent
    assert _records(channel) == _records(parts)


def _records(batches: list[Batch]) -> list[Any]:
    return [
        (row, None if times is None else int(times[position]))
        for batch in batches
        for times in (times_of(batch),)
        for position, row in enumerate(rows_of(batch))
    ]

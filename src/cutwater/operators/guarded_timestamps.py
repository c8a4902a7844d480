"""How are timestamps assigned when the user's function may fail on some records?"""

from __future__ import annotations

from typing import Any

from cutwater.batches import Batch
from cutwater.operators.contract import OperatorContext
from cutwater.operators.event_time import AssignTimestampsOperator
from cutwater.operators.failing import FailedRecords, Tolerance
from cutwater.operators.timestamps import TimestampSelector, check_timestamp
from cutwater.protocol.event_time import WatermarkStrategy


class GuardedTimestampsOperator(AssignTimestampsOperator):
    """Leaves out the records on which the function fails, or for which it gives what is no timestamp at all.

    A failed record counts for no watermark. The function is asked twice about each of the others.
    """

    def __init__(self, selector: TimestampSelector, strategy: WatermarkStrategy, tolerance: Tolerance) -> None:
        super().__init__(selector, strategy)
        self._timestamp_of = selector.getter
        self._blamed: object = selector.function or f"assign_timestamps({selector.describe()})"
        self._failed = FailedRecords(tolerance)

    @property
    def side_tags(self) -> frozenset[str]:
        return self._failed.side_tags

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._failed.open(context)

    def process(self, batch: Batch, port: int) -> None:
        good, _ = self._failed.without(batch, self._ask, function=self._blamed)
        if good.num_rows:
            super().process(good, port)

    def _ask(self, row: Any) -> None:
        check_timestamp(self._timestamp_of(row))

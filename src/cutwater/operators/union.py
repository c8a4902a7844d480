"""What stands where streams meet or are spread anew, and nothing is computed?"""

from __future__ import annotations

from cutwater.batches import Batch
from cutwater.operators.contract import Operator


class PassOperator(Operator):
    """Hands every batch of every port on."""

    def process(self, batch: Batch, port: int) -> None:
        self.context.emit(batch)

"""What do map, flat_map, filter and key_by do with a batch of which some records may fail?

The same as their plain twins in `rows`, with a try around every single call. Nothing else leaves of a record that
fails.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from cutwater.batches import Batch, ObjectBatch, Times, picked, take_rows, times_of
from cutwater.graph.keys import KeySelector
from cutwater.operators.contract import PYTHON_ROWS_MAX, Operator, OperatorContext
from cutwater.operators.failing import FailedRecords, Tolerance
from cutwater.operators.spreading import checked_kind
from cutwater.protocol.key_groups import KeyGroups


class GuardedOperator(Operator):
    """Asks the function about each record, and passes on what it said of those that it didn't fail on."""

    typed_rows_max = PYTHON_ROWS_MAX

    def __init__(self, function: Callable[[Any], Any], tolerance: Tolerance) -> None:
        self._function = function
        self._blamed: object = function
        self._failed = FailedRecords(tolerance)

    @property
    def side_tags(self) -> frozenset[str]:
        return self._failed.side_tags

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._failed.open(context)

    def process(self, batch: Batch, port: int) -> None:
        good, answers = self._failed.without(batch, self._ask, function=self._blamed)
        if answers:
            self._pass_on(good, answers)

    @abstractmethod
    def _ask(self, row: Any) -> Any:
        """Calls the function, and does all that may fail because of what it gives."""

    @abstractmethod
    def _pass_on(self, batch: Batch, answers: list[Any]) -> None:
        """Emits what is made of these records, of which none failed, and one answer each."""


class GuardedMapOperator(GuardedOperator):
    """One output for each record that doesn't fail."""

    def _ask(self, row: Any) -> Any:
        return self._function(row)

    def _pass_on(self, batch: Batch, answers: list[Any]) -> None:
        self.context.emit(ObjectBatch(answers, times_of(batch)))


class GuardedFlatMapOperator(GuardedOperator):
    """All outputs of a record, or none if the function fails half-way."""

    def _ask(self, row: Any) -> list[Any]:
        made: Iterable[Any] = self._function(row)
        checked_kind(made, self._function, self.context.name, row)
        return list(made)

    def _pass_on(self, batch: Batch, answers: list[Any]) -> None:
        outputs = list(chain.from_iterable(answers))
        times: Times | None = times_of(batch)
        if outputs:
            times = None if times is None else np.repeat(times, [len(answer) for answer in answers])
            self.context.emit(ObjectBatch(outputs, times))


class GuardedFilterOperator(GuardedOperator):
    """The records for which the function is true; a typed batch stays typed."""

    def _ask(self, row: Any) -> bool:
        return bool(self._function(row))

    def _pass_on(self, batch: Batch, answers: list[Any]) -> None:
        kept = batch
        if not all(answers):
            kept = _kept(batch, answers)
        if kept.num_rows:
            self.context.emit(kept)


class GuardedKeyOperator(GuardedOperator):
    """The records that have a key: they leave as they came, and what follows asks for their key again."""

    def __init__(self, key: KeySelector, tolerance: Tolerance) -> None:
        super().__init__(key.key_of, tolerance)
        self._blamed = key.function or f"key_by({key.describe()})"

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._group_of = KeyGroups(context.max_parallelism).of

    def _ask(self, row: Any) -> Any:
        return self._group_of(self._function(row))

    def _pass_on(self, batch: Batch, answers: list[Any]) -> None:
        self.context.emit(batch)


def _kept(batch: Batch, mask: list[bool]) -> Batch:
    if isinstance(batch, ObjectBatch):
        return take_rows(batch, [index for index, keeps in enumerate(mask) if keeps])
    return picked(batch, pa.array(mask, type=pa.bool_()))

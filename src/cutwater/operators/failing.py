"""How does an operator go on when the user's function fails on a record?

With `on_error="skip"` the record is dropped and counted, with "dead_letter" it leaves by the side output "errors".
Either way nothing else of the failed call leaves. What is no fault of the record still fails the job: `sys.exit`, no
memory, a broken storage of state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

import numpy as np

from cutwater.batches import Batch, ObjectBatch, rows_of, take_rows, times_of
from cutwater.connectors.contract import Unreadable
from cutwater.dead_letters import ERRORS, DeadLetter
from cutwater.errors import CutwaterError, InternalError, OperationsError
from cutwater.operators.contract import OperatorContext
from cutwater.operators.user_code import USER_FAILURES, line_of, raise_user_error
from cutwater.state.copies import copied_values

#: The policies with which a job goes on.
Tolerance = Literal["skip", "dead_letter"]
_NO_FAULT_OF_THE_RECORD: Final = (SystemExit, MemoryError, OperationsError, InternalError)


class FailedRecords:
    """Counts the records that one operator's functions fail on, and writes their dead letters."""

    def __init__(self, tolerance: Tolerance) -> None:
        self.keeps = tolerance == "dead_letter"
        """Whether there are dead letters."""

    @property
    def side_tags(self) -> frozenset[str]:
        return frozenset({ERRORS} if self.keeps else ())

    def open(self, context: OperatorContext) -> None:
        self._context = context

    def without(self, batch: Batch, ask: Callable[[Any], Any], *, function: object) -> tuple[Batch, list[Any]]:
        """The batch without the records on which `ask` fails, and what it says of the others. Letters are sent."""
        rows = rows_of(batch)
        originals = copied_values(rows) if self.keeps else rows  # the function may change its record before it fails
        answers: list[Any] = []
        failed: list[int] = []
        letters: list[DeadLetter] = []
        for index, row in enumerate(rows):
            try:
                answers.append(ask(row))
            except USER_FAILURES as error:
                failed.append(index)
                letter = self.taken(error, function=function, record=originals[index])
                if letter is not None:
                    letters.append(letter)
        if letters:
            times = times_of(batch)
            self._context.emit_side(ERRORS, ObjectBatch(letters, None if times is None else times[failed]))
        if failed:
            batch = take_rows(batch, np.delete(np.arange(len(rows)), failed))
        return batch, answers

    def taken(self, error: BaseException, *, function: object, record: Any) -> DeadLetter | None:
        """The letter to send, if there are any; raises what another record would have met as well."""
        if isinstance(error, _NO_FAULT_OF_THE_RECORD):
            raise_user_error(error, function=function, operator=self._context.name, record=record)
        return self._counted(error, function=function, record=record, position=None)

    def unread(self, split: str, unreadable: Sequence[Unreadable]) -> list[DeadLetter]:
        """The letters to send, if there are any, of what a source could not decode."""
        letters = [
            self._counted(each.error, function=each.function, record=each.raw, position=f"{split}@{each.position}")
            for each in unreadable
        ]
        return [letter for letter in letters if letter is not None]

    def _counted(
        self, error: BaseException, *, function: object, record: Any, position: str | None
    ) -> DeadLetter | None:
        if not self.keeps:
            self._context.metrics.skipped_records += 1
            return None
        self._context.metrics.dead_letters += 1
        line = None if function is None else line_of(error, function)
        uid = self._context.uid
        return DeadLetter(record=record, position=position, error=_told(error), operator=uid, line=line)


def _told(error: BaseException) -> str:
    name = type(error).__name__
    try:
        text = error.in_one_line if isinstance(error, CutwaterError) else str(error)
    except Exception:  # a class of the user's that can't say what happened
        return name
    return f"{name}: {text}" if text else name

"""What do map, flat_map, filter and map_batches do with a batch?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa

from cutwater.batches import (
    Batch,
    ObjectBatch,
    picked,
    rows_of,
    take_rows,
    time_column_of,
    times_of,
    with_times,
    without_time_column,
)
from cutwater.errors import UserFunctionError
from cutwater.operators.contract import PYTHON_ROWS_MAX, Operator
from cutwater.operators.frames import batch_of_frame, frame_of, is_frame
from cutwater.operators.schemas import as_promised
from cutwater.operators.spreading import checked_kind
from cutwater.operators.user_code import USER_FAILURES, last_taken, map_rows, name_of, raise_user_error, shown


class MapOperator(Operator):
    """One output for each record."""

    typed_rows_max = PYTHON_ROWS_MAX

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function

    def process(self, batch: Batch, port: int) -> None:
        outputs = map_rows(self._function, rows_of(batch), operator=self.context.name)
        self.context.emit(ObjectBatch(outputs, times_of(batch)))


class FlatMapOperator(Operator):
    """Any number of outputs for each record: the function returns an iterable, or is a generator."""

    typed_rows_max = PYTHON_ROWS_MAX

    def __init__(self, function: Callable[[Any], Iterable[Any]]) -> None:
        self._function = function

    def process(self, batch: Batch, port: int) -> None:
        times = times_of(batch)
        outputs: list[Any] = []
        if times is None:
            self._extend(outputs, batch)
        else:
            times = np.repeat(times, self._extend_and_count(outputs, batch))
        if outputs:
            self.context.emit(ObjectBatch(outputs, times))

    def _extend(self, outputs: list[Any], batch: Batch) -> None:
        function = self._function
        extend = outputs.extend
        record = kind = None
        try:
            for record in rows_of(batch):
                made = function(record)
                if type(made) is not kind:
                    kind = checked_kind(made, function, self.context.name, record)
                extend(made)
        except USER_FAILURES as error:
            raise_user_error(error, function=function, operator=self.context.name, record=record)

    def _extend_and_count(self, outputs: list[Any], batch: Batch) -> list[int]:
        """How many outputs each record has."""
        function = self._function
        ends = [0]
        record = kind = None
        try:
            for record in rows_of(batch):
                made = function(record)
                if type(made) is not kind:
                    kind = checked_kind(made, function, self.context.name, record)
                outputs.extend(made)
                ends.append(len(outputs))
        except USER_FAILURES as error:
            raise_user_error(error, function=function, operator=self.context.name, record=record)
        return [end - start for start, end in pairwise(ends)]


class FilterOperator(Operator):
    """The records for which the function is true; a typed batch stays typed."""

    typed_rows_max = PYTHON_ROWS_MAX

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function

    def process(self, batch: Batch, port: int) -> None:
        rows = rows_of(batch)
        remaining = iter(rows)
        function = self._function
        kept: Batch
        try:
            if isinstance(batch, ObjectBatch):
                kept = self._kept(batch, function, remaining)
            else:
                mask = [True if function(row) else False for row in remaining]  # noqa: SIM210 (a call of bool is slower)
                kept = batch if all(mask) else picked(batch, pa.array(mask, type=pa.bool_()))
        except USER_FAILURES as error:
            raise_user_error(error, function=function, operator=self.context.name, record=last_taken(rows, remaining))
        if kept.num_rows:
            self.context.emit(kept)

    @staticmethod
    def _kept(batch: ObjectBatch, function: Callable[[Any], Any], remaining: Iterator[Any]) -> Batch:
        if batch.times is None:
            return ObjectBatch([row for row in remaining if function(row)])
        return take_rows(batch, [index for index, row in enumerate(remaining) if function(row)])


class MapBatchesOperator(Operator):
    """Whole batches: Arrow ones of a typed stream, lists of values of any other.

    The function returns a RecordBatch or a Table, a DataFrame, a list of values, None, or an iterable of these. A list
    as long as the batch keeps the records' event times; an Arrow batch has them in its time column, if it kept that.
    """

    def __init__(
        self, function: Callable[[Any], Any], schema: pa.Schema | None = None, takes_frames: bool = False
    ) -> None:
        self._function = function
        self._schema = schema
        self._takes_frames = takes_frames

    def process(self, batch: Batch, port: int) -> None:
        for result in self._results_of(self._argument(batch)):
            if is_frame(result):
                result = batch_of_frame(result, batch)
            for output in self._batches_of(result):
                if isinstance(output, ObjectBatch) and output.num_rows == batch.num_rows:
                    output.times = times_of(batch)
                if output.num_rows:
                    self.context.emit(output)

    def _argument(self, batch: Batch) -> Any:
        if self._takes_frames:
            return frame_of(batch)
        # A copy of the list: other receivers of the batch share it, and the function may sort in place.
        return list(batch.values) if isinstance(batch, ObjectBatch) else batch

    def _results_of(self, argument: Any) -> Iterator[Any]:
        """Each result as soon as it is there; what happens to it downstream is outside of the try."""
        try:
            returned = self._function(argument)
            if _is_one_batch(returned) or returned is None or _is_list_of_values(returned):
                results = iter((returned,))
            else:
                results = iter(returned)
        except USER_FAILURES as error:
            self._fail(error, argument)
        while True:
            try:
                result = next(results)
            except StopIteration:
                return
            except USER_FAILURES as error:
                self._fail(error, argument)
            yield result

    def _batches_of(self, result: Any) -> list[Batch]:
        if isinstance(result, pa.RecordBatch):
            return [self._promised(result)]
        if isinstance(result, pa.Table):
            return [self._promised(batch) for batch in result.to_batches()]
        if isinstance(result, list) and self._schema is None:
            return [ObjectBatch(result)]
        if result is None:
            return []
        raise UserFunctionError(
            f'function "{name_of(self._function)}" of operator "{self.context.name}" returned what is not a batch',
            detail=f"{type(result).__name__}: {shown(result)}",
            hint="return a pyarrow RecordBatch, a pandas DataFrame, a list of values, or an iterable of these; with "
            "schema=… no lists",
        )

    def _promised(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """With a schema, exactly that; a time column that it doesn't have may come with it."""
        if self._schema is None:
            return batch
        own = without_time_column(batch)
        promised = as_promised(own, self._schema, operator=self.context.name)
        # Of united streams some may have their times in a column of the user's, and others beside them.
        if own is batch and time_column_of(self._schema) is not None:
            return promised.replace_schema_metadata(self._schema.metadata)
        return with_times(promised, times_of(batch))

    def _fail(self, error: BaseException, argument: Any) -> NoReturn:
        raise_user_error(
            error, function=self._function, operator=self.context.name, record=argument, moment="on a batch"
        )


def _is_one_batch(returned: Any) -> bool:
    return isinstance(returned, pa.RecordBatch | pa.Table) or is_frame(returned)


def _is_list_of_values(returned: Any) -> bool:
    return isinstance(returned, list) and not (returned and _is_one_batch(returned[0]))

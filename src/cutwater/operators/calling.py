"""How is one call of a user's coroutine made: with a time limit, and again if it fails?

The function is a callable that returns an awaitable, or an object with `process(record)`, which may also have
`open(context)` and `close()`: for a session that all its calls use.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from inspect import isawaitable
from typing import Any

from cutwater.durations import describe_seconds
from cutwater.errors import UserError, UserFunctionError
from cutwater.operators.contract import OperatorContext
from cutwater.operators.user_code import name_of, shown
from cutwater.operators.user_metrics import UserMetrics
from cutwater.retry import Retry
from cutwater.state.copies import copied


@dataclass(frozen=True, slots=True)
class CallContext:
    """What `open` is given: which task this is, and of how many."""

    subtask: int
    parallelism: int
    metrics: UserMetrics


class Caller:
    """Calls the function. All of it runs on the event loop."""

    def __init__(self, function: Any, *, timeout_seconds: float | None, retry: Retry | None) -> None:
        self.function = function
        self.process = _process_method_of(function)
        self._timeout_seconds = timeout_seconds
        self._retry = retry
        self._operator = ""

    @property
    def opens(self) -> bool:
        return hasattr(self.function, "open")

    @property
    def closes(self) -> bool:
        return hasattr(self.function, "close")

    def belong_to(self, context: OperatorContext) -> None:
        self._operator = context.name
        self._context = CallContext(context.subtask, context.parallelism, context.user_metrics)

    async def open(self) -> None:
        opened = self.function.open(self._context)
        if isawaitable(opened):
            await opened

    async def close(self) -> None:
        closed = self.function.close()
        if isawaitable(closed):
            await closed

    async def answer(self, record: Any) -> Any:
        """The result for a record, after as many attempts as are allowed."""
        attempt = 1
        while True:
            try:
                # A copy: the record may be called with again, and is part of snapshots meanwhile.
                return await self._attempt(copied(record))
            except Exception as error:
                pause_seconds = None if self._retry is None else self._retry.pause_seconds(attempt, error)
                if pause_seconds is None:
                    raise
            await asyncio.sleep(pause_seconds)
            attempt += 1

    async def _attempt(self, record: Any) -> Any:
        if self._timeout_seconds is None:
            return await self._begun(record)
        try:
            async with asyncio.timeout(self._timeout_seconds) as limit:
                return await self._begun(record)
        except TimeoutError as error:
            if not limit.expired():
                raise  # the function's own
            # Where it was waiting is known to what asyncio interrupted it with.
            place = error.__traceback__ if error.__cause__ is None else error.__cause__.__traceback__
            late = TimeoutError(f"no result within {describe_seconds(self._timeout_seconds)}")
            raise late.with_traceback(place) from None

    def _begun(self, record: Any) -> Awaitable[Any]:
        begun = self.process(record)
        if not isawaitable(begun):
            raise UserFunctionError(
                f'function "{name_of(self.process)}" of operator "{self._operator}" returned what can\'t be awaited',
                detail=f"{type(begun).__name__}: {shown(begun)}",
                hint="write it as `async def`; a function that doesn't wait for anything is for map",
            )
        return begun


def _process_method_of(function: Any) -> Callable[[Any], Awaitable[Any]]:
    """The object's `process`, or the callable itself."""
    if isinstance(function, type):
        raise UserError(
            f'"{function.__name__}" is a class, not a function', hint=f"pass an object: {function.__name__}()"
        )
    process: Callable[[Any], Awaitable[Any]] | None = getattr(function, "process", function)
    if not callable(process):
        raise UserError(
            f'an object of type "{type(function).__name__}" can\'t be called with records',
            hint="give it a method `async def process(self, record)`, or pass an `async def` function of the record",
        )
    return process

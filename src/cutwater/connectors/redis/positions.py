"""Where in a stream are we, and is everything behind that place still there?

XREAD goes on behind an id, whatever was there: entries that were trimmed before they were read are skipped without a
word. So a position also knows what comes next. Either an entry that was seen behind it: then that one must still be
there. Or nothing, and how many entries were ever added: then the number of those that came since must be that of those
that are there. Streams are trimmed from the front only: as long as an entry that was read is still there, so is
everything behind it, except what was deleted by its id, on purpose.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from cutwater.errors import OperationsError

EntryId: TypeAlias = "tuple[int, int]"
BEFORE_ALL = "0-0"


class Position(msgspec.Struct, frozen=True, array_like=True):
    """Behind the entry of this id."""

    id: str
    #: Entries ever added up to here; None: unknown, because reading began in the middle.
    count: int | None = None
    #: The next entry; empty: there was none yet, and the count is exact.
    next: str = ""


class StreamState(msgspec.Struct, frozen=True):
    """What XINFO STREAM says."""

    length: int
    added: int
    first: str
    last: str

    @classmethod
    def of(cls, answer: dict[Any, Any]) -> StreamState:
        told = {_text(key): value for key, value in answer.items()}
        return cls(
            length=told["length"],
            added=told["entries-added"],
            first=_text(told["recorded-first-entry-id"]),
            last=_text(told["last-generated-id"]),
        )


def start_of(state: StreamState, start: str) -> Position:
    """Where reading begins: at "earliest", at "latest", or behind an id."""
    if start == "latest":
        return Position(state.last, state.added)
    before = state.added - state.length
    if start == "earliest":
        return Position(BEFORE_ALL, before)
    return Position(start, before if _is_behind(state, start) else None)


def check_nothing_lost(stream: str, position: Position, state: StreamState, next_id: str | None) -> None:
    """Raises if entries that were not read are gone. `next_id`: of the first entry behind the position."""
    if parsed(state.last) < parsed(position.id) or state.added < (position.count or 0):
        raise OperationsError(
            f'stream "{stream}" has lost entries that were read before',
            detail=f"we are behind {position.id}, the last id that it gave is {state.last}",
            hint="the stream was deleted and made anew, or the server lost its newest data (see appendfsync)",
        )
    if position.next == next_id or not _is_behind(state, position.id):
        return
    if position.next:
        lost = f"entry {position.next} was next, now it is {next_id or 'none'}"
    elif position.count is None or state.added - position.count == state.length:
        return
    else:
        lost = f"{state.added - position.count} were added behind {position.id}, {state.length} are there"
    raise OperationsError(
        f'stream "{stream}" was trimmed before it was read',
        detail=lost,
        hint="let it keep more (MAXLEN, MINID); to go on without them, start the job anew",
    )


def advanced(position: Position, state: StreamState, *, last_read: str, rows: int, next_id: str | None) -> Position:
    """Behind this many entries more. `state` is of the moment when they were read."""
    if next_id is None:
        return Position(last_read, state.added)
    count = None if position.count is None else position.count + rows
    return Position(last_read, count, next_id)


def parsed(entry_id: str) -> EntryId:
    """In the order of the stream."""
    milliseconds, _, number = entry_id.partition("-")
    return int(milliseconds), int(number or 0)


def _is_behind(state: StreamState, entry_id: str) -> bool:
    """True: nothing up to this id is there any more, so entries behind it may be gone, too."""
    return state.length == 0 or parsed(state.first) > parsed(entry_id)


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value

"""Which results of a function are several records?

`flat_map`, `process` and window functions return any iterable of records. A string, a dict or a row of a table is an
iterable too, of letters, keys or fields: what was meant is one record, so it is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from cutwater.errors import UserFunctionError
from cutwater.operators.user_code import NO_RECORD, name_of, shown
from cutwater.user_frames import NEXT_LINE, places_of


def checked_kind(returned: Any, function: object, operator: str, record: object = NO_RECORD) -> Any:
    """The type of what the function returned, if its items are the records; loops ask again when it is another."""
    kind: Any = type(returned)
    if _is_one_record(kind):
        lines = [f"it returned {shown(returned)}"]
        if record is not NO_RECORD:
            lines.append(f"record: {shown(record)}")
        raise UserFunctionError(
            f'function "{name_of(function)}" of operator "{operator}" returned a {kind.__name__}, '
            "not an iterable of records",
            detail=NEXT_LINE.join([*lines, *places_of(None, function)]),
            hint="yield the record, or return [record]",
        )
    return kind


@lru_cache(maxsize=1024)
def _is_one_record(kind: Any) -> bool:
    if issubclass(kind, str | bytes | bytearray | Mapping) or hasattr(kind, "__dataframe__"):
        return True
    return issubclass(kind, tuple) and hasattr(kind, "_fields")

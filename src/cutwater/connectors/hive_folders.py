"""How is a value written as the name of a folder, so that others read the same value, and no value leads elsewhere?

As Hive and Spark do it: characters that mean something in paths and globs become %XX, null and the empty text become
`__HIVE_DEFAULT_PARTITION__`. A folder's name always has a = in it, so none is hidden, `.` or `..`.
"""

from __future__ import annotations

import math
import re
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from cutwater.errors import SerializationError

NULL = "__HIVE_DEFAULT_PARTITION__"
_SPECIAL = re.compile(r"[\x00-\x1f\x7f\"#%'*+/:=?\\{}\[\]^]")
_NAME_BYTES_MAX = 255
_SEGMENT = re.compile(r"(?![._=])[^/\x00=]+=[^/\x00=]+")


def folder_name(column: str, value: Any) -> str:
    """`column=value`, for one value of a row."""
    name = f"{_quoted(column)}={_quoted(written(value)) or NULL}"
    if len(name.encode()) > _NAME_BYTES_MAX:
        raise SerializationError(
            f"a value of {column!r} is too long for the name of a folder",
            detail=f"{str(value)[:80]!r}… makes {len(name.encode())} bytes, {_NAME_BYTES_MAX} is the most",
            hint="choose a column with short values for partition_by",
        )
    return name


def is_inside(partition: str) -> bool:
    """Whether these are folders that a sink may have named, one below the other."""
    return all(_SEGMENT.fullmatch(segment) for segment in partition.split("/"))


def written(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case float() if math.isnan(value):
            return "NaN"
        case datetime():
            return value.isoformat(" ")
        case date():
            return value.isoformat()
        case str() | int() | float() | Decimal():
            return str(value)
    raise SerializationError(
        f"{type(value).__name__} can't be the name of a folder",
        detail=f"the value {str(value)[:80]!r}",
        hint="partition_by takes columns with texts, numbers, booleans, dates and times",
    )


def _quoted(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise SerializationError(
            "a value can't be the name of a folder", detail=f"{text[:80]!r} is no valid Unicode"
        ) from error
    quoted = _SPECIAL.sub(lambda match: f"%{ord(match.group()):02X}", text)
    return re.sub(r"\.tmp$", "%2Etmp", quoted)  # else it would be passed over as unfinished

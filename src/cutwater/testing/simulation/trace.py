"""What happened in a run, line by line, and was it the same as last time?"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from cutwater.batches import ObjectBatch


class Trace:
    """One line per event. While it is off an event costs one comparison: nothing is formatted."""

    def __init__(self, *, on: bool) -> None:
        self.on = on
        self.lines: list[str] = []

    def add(self, now_seconds: float, template: str, *values: Any) -> None:
        text = template % tuple(map(_shown, values)) if values else template
        self.lines.append(f"{now_seconds:10.6f}  {text}")

    def digest(self) -> str:
        """Equal for equal traces, in every process."""
        return hashlib.sha256("\n".join(self.lines).encode()).hexdigest()[:16]


def _shown(value: Any) -> str:
    """Short, and free of what differs between processes (addresses of objects, order of sets)."""
    if isinstance(value, msgspec.Struct):
        fields = ((name, getattr(value, name)) for name in value.__struct_fields__)
        return f"{type(value).__name__}({', '.join(f'{name}={_field(field)}' for name, field in fields)})"
    if isinstance(value, ObjectBatch):
        return f"{value.num_rows} records {value.values!r}"
    return str(value)


def _field(value: Any) -> str:
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    if isinstance(value, msgspec.Struct):
        return type(value).__name__
    return str(value)

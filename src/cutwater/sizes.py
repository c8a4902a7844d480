"""How many bytes does a person mean by "512MB"?"""

from __future__ import annotations

import re

from cutwater.errors import ConfigurationError

Size = int | str

_UNITS = {"": 1, "b": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30, "tb": 1 << 40}
_WRITTEN = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*$")


def parse_size(value: Size, *, option: str = "size") -> int:
    """Bytes: a whole number, or a text such as "256MB"; units are powers of 1024."""
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    match = _WRITTEN.match(value) if isinstance(value, str) else None
    unit = _UNITS.get(match[2].lower().replace("ib", "b")) if match else None
    size = int(float(match[1]) * unit) if match and unit else 0
    if size <= 0:
        raise ConfigurationError(f"{option} is not a size: {value!r}", hint='write "256MB", "2GB" or a number of bytes')
    return size

"""Which paths stay below the root of a storage?"""

from __future__ import annotations

from cutwater.errors import InternalError


def parts_of_path(path: str) -> list[str]:
    """The parts of a path from the root; one that would leave the root is refused."""
    parts = [part for part in path.split("/") if part]
    if path.startswith("/") or ".." in parts or "." in parts:
        raise InternalError(f'"{path}" is not a path below the storage\'s root')
    return parts

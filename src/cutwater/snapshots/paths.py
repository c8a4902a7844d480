"""Which paths stay below the root of a storage?"""

from __future__ import annotations

from cutwater.errors import InternalError


def parts_of_path(path: str) -> list[str]:
    """The parts of a path from the root; one that would leave the root is refused."""
    if not is_below_root(path):
        raise InternalError(f'"{path}" is not a path below the storage\'s root')
    return [part for part in path.split("/") if part]


def is_below_root(path: str) -> bool:
    """For any file system, also one on which a backslash or a drive's letter leads elsewhere."""
    parts = path.split("/")
    return not (path.startswith("/") or ".." in parts or "." in parts or "\0" in path or "\\" in path)

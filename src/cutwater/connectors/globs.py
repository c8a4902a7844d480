"""Which paths does a glob name, where nobody lists one folder after the other?

The words are those of Python's `glob`: `*`, `?` and `[…]` stay within a part of the path, `**` stands for any number of
parts, also none.
"""

from __future__ import annotations

import glob
import os
import re

_ANY_DEPTH = "**"


def has_magic(pattern: str) -> bool:
    return glob.has_magic(pattern)


def fixed_prefix(pattern: str) -> str:
    """The folder above the first wildcard."""
    folder = pattern
    while glob.has_magic(folder):
        folder = os.path.dirname(folder)
    return folder


def is_unfinished(name: str) -> bool:
    return name.startswith((".", "_")) or name.endswith(".tmp")


def is_finished_below(root: str, path: str) -> bool:
    """Whether no part of the path below the root says that someone is still writing."""
    return not any(map(is_unfinished, os.path.relpath(path, root).split(os.sep)))


def matcher(pattern: str) -> re.Pattern[str]:
    """For whole paths."""
    parts = pattern.split("/")
    expression = ""
    for index, part in enumerate(parts):
        is_last = index == len(parts) - 1
        if part == _ANY_DEPTH:
            expression += ".*" if is_last else "(?:[^/]+/)*"
        else:
            expression += _part(part) + ("" if is_last else "/")
    return re.compile(expression, re.DOTALL)


def _part(part: str) -> str:
    expression = ""
    for token in re.findall(r"\[!?\]?[^\]]*\]|.", part, re.DOTALL):
        if token == "*":
            expression += "[^/]*"
        elif token == "?":
            expression += "[^/]"
        elif len(token) > 1:
            negated = token.startswith("[!")
            members = re.escape(token[2 if negated else 1 : -1]).replace(r"\-", "-")
            expression += f"(?!/)[{'^' if negated else ''}{members}]"
        else:
            expression += re.escape(token)
    return expression

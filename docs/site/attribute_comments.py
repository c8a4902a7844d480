"""Shows the comments `#: …` above an attribute in the reference, as if they were its docstring."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import griffe

MARK = "#:"


class AttributeComments(griffe.Extension):
    def on_attribute_instance(self, *, attr: griffe.Attribute, **_: Any) -> None:
        if attr.docstring is None and attr.lineno is not None and isinstance(attr.filepath, Path):
            text = comment_above(attr.filepath, attr.lineno)
            if text:
                attr.docstring = griffe.Docstring(text, parent=attr)


def comment_above(path: Path, line: int) -> str:
    """What the lines above this one (from 1) say, each beginning with the mark."""
    lines = _lines(path)
    first = line - 1
    while first > 0 and lines[first - 1].strip().startswith(MARK):
        first -= 1
    return "\n".join(text.strip().removeprefix(MARK).strip() for text in lines[first : line - 1])


@cache
def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines()

"""Which side outputs does a function name?

Read from its code, so that a slip of the pen is noticed when the job is written: `context.side_output("late", …)` names
one, if the tag stands there as text or is a constant of the module.
"""

from __future__ import annotations

import dis
from collections.abc import Iterator
from itertools import pairwise
from types import CodeType
from typing import Any

_METHODS = ("process", "process1", "process2", "process_broadcast", "on_timer")


def named_tags(function: Any) -> frozenset[str] | None:
    """None: it names none, or some of them are known only when it runs."""
    tags: set[str] = set()
    for method in _methods_of(function):
        for code in _codes_in(method.__code__):
            for tag in _tags_in(code, method.__globals__):
                if tag is None:
                    return None
                tags.add(tag)
    return frozenset(tags) or None


def _methods_of(function: Any) -> Iterator[Any]:
    found = [getattr(function, name, None) for name in _METHODS]
    for method in (function, *found):
        plain = getattr(method, "__func__", method)
        if hasattr(plain, "__code__") and hasattr(plain, "__globals__"):
            yield plain


def _codes_in(code: CodeType) -> Iterator[CodeType]:
    """With those of functions and comprehensions inside."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes_in(constant)


def _tags_in(code: CodeType, module: dict[str, Any]) -> Iterator[str | None]:
    for call, argument in pairwise(dis.get_instructions(code)):
        if call.argval == "side_output" and call.opname in ("LOAD_METHOD", "LOAD_ATTR"):
            value = argument.argval
            if argument.opname == "LOAD_GLOBAL":
                value = module.get(argument.argval)
            elif argument.opname != "LOAD_CONST":
                value = None
            yield value if isinstance(value, str) else None

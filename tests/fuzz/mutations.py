"""How does a document become one that a stranger, or a broken disk, could have made of it?

Structure-aware: any part of a valid document is replaced, removed, repeated or exchanged with another. So a mutation
gets past the parser, and meets what comes behind it. Bytes are changed as well: for the parser itself.
"""

from __future__ import annotations

import base64
import copy
import pickle
from typing import Any

from hypothesis import strategies as st

#: Texts that lead elsewhere, are no text, or are a program.
HOSTILE_TEXTS = st.sampled_from(
    [
        *(
            "",
            ".",
            "..",
            "/",
            "../..",
            "../evil",
            "/etc/passwd",
            "shared/../../evil",
            "a\\..\\b",
            "C:\\x",
            "a\0b",
            "\ud7ff",
        ),
        *(
            "x" * 5_000,
            "manifest-a1.json",
            "%2e%2e",
            "-c1-a1-",
            "shared/-c1-a1-",
            "tables/../../../x",
            "\x1b[2J",
            "[/]",
        ),
        base64.b64encode(pickle.dumps(print, 5)).decode(),
    ]
)
NUMBERS = st.one_of(st.integers(-3, 3), st.sampled_from([2**31, 2**63, -(2**63), 2**64, 10**30, 0.5, -0.0, 1e308]))
LEAVES = st.one_of(st.none(), st.booleans(), NUMBERS, HOSTILE_TEXTS, st.text(max_size=20))
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)


@st.composite
def mutated(draw: st.DrawFn, document: Any) -> Any:
    """The document with one to four parts changed."""
    document = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, 4))):
        places = list(_places(document))
        if not places:
            return draw(VALUES)
        holder, key = draw(st.sampled_from(places))
        match draw(st.sampled_from(["replace", "replace", "remove", "repeat", "exchange"])):
            case "replace":
                holder[key] = draw(VALUES)
            case "remove":
                del holder[key]
            case "repeat":
                other = copy.deepcopy(holder[key])
                holder.insert(key, other) if isinstance(holder, list) else holder.update({draw(HOSTILE_TEXTS): other})
            case "exchange":
                other_holder, other_key = draw(st.sampled_from(places))
                holder[key] = copy.deepcopy(other_holder[other_key])
    return document


@st.composite
def damaged(draw: st.DrawFn, data: bytes) -> bytes:
    """The bytes, flipped, cut, doubled or replaced."""
    changed = bytearray(data)
    for _ in range(draw(st.integers(1, 4))):
        position = draw(st.integers(0, max(len(changed) - 1, 0)))
        match draw(st.sampled_from(["flip", "cut", "insert", "truncate"])):
            case "flip" if changed:
                changed[position] ^= draw(st.integers(1, 255))
            case "cut":
                del changed[position : position + draw(st.integers(1, 64))]
            case "insert":
                changed[position:position] = draw(st.binary(max_size=16))
            case _:
                del changed[position:]
    return bytes(changed)


def _places(document: Any) -> Any:
    items = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in list(items):
        yield document, key
        if isinstance(value, (dict, list)):
            yield from _places(value)

"""How does a dictionary-encoded column take part where Arrow's kernels want plain values?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

_VIEWS = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}


def plain(value: Any) -> Any:
    """The same values, each written out; an array or scalar that is plain already is returned as it is."""
    if isinstance(value, pa.DictionaryArray):
        return plain(value.dictionary_decode())
    if isinstance(value, pa.StringViewArray | pa.BinaryViewArray):
        return value.cast(_VIEWS[value.type])
    return value


def each_value_once(function: Callable[[Any], Any], value: Any) -> Any:
    """The function on the dictionary, its results handed out by the codes; on plain values as usual.

    The function looks at each value alone and can't fail: a dictionary may hold values that no row uses.
    """
    if isinstance(value, pa.DictionaryArray):
        dictionary = value.dictionary
        # A short slice of a batch can have a dictionary far longer than itself.
        if len(dictionary) <= len(value):
            return function(plain(dictionary)).take(value.indices)
    return function(plain(value))

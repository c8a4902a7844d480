"""How does a dictionary-encoded column take part where Arrow's kernels want plain values?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
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
            return _handed_out(function(plain(dictionary)), value.indices)
    return function(plain(value))


def _handed_out(results: Any, codes: Any) -> Any:
    """The result that belongs to each code."""
    if not pa.types.is_boolean(results.type) or results.null_count or codes.null_count:
        return results.take(codes)
    # Three times as fast as `take`, and conditions on encoded texts are what most filters are.
    bits = np.packbits(results.to_numpy(zero_copy_only=False).take(codes.to_numpy()), bitorder="little")
    return pa.Array.from_buffers(results.type, len(codes), [None, pa.py_buffer(bits)])

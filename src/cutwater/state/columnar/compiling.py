"""How do the kernels become machine code?

Numba compiles a kernel when it is first called and keeps the result on disk, next to the source or in the user's cache
folder; later processes load it. Where neither can be written, every process compiles for itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

Kernel = TypeVar("Kernel", bound=Callable[..., Any])


def kernel(function: Kernel) -> Kernel:
    """A function of NumPy arrays and numbers that runs without Python and without the GIL."""
    try:
        return _compiled(function, cache=True)
    except RuntimeError:  # no folder to keep it in
        return _compiled(function, cache=False)


def inlined(function: Kernel) -> Kernel:
    """A helper of kernels, which is compiled into each of them."""
    return _compiled(function, cache=False)


def _compiled(function: Kernel, *, cache: bool) -> Kernel:
    made: Any = numba.njit(cache=cache, nogil=True)(function)
    return made  # type: ignore[no-any-return]

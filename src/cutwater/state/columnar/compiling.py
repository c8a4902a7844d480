"""How do the kernels become machine code?

Numba compiles a kernel when it is first called and keeps the result on disk, next to the source or in the user's cache
folder; later processes load it. Where neither can be written, every process compiles for itself. A driver that only
describes a job never loads Numba.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar, cast

Kernel = TypeVar("Kernel", bound=Callable[..., Any])


def kernel(function: Kernel) -> Kernel:
    """A function of NumPy arrays and numbers that runs without Python and without the GIL."""
    return cast(Kernel, _Uncompiled(function, keep=True))


def inlined(function: Kernel) -> Kernel:
    """A helper of kernels, which is compiled into each of them."""
    return cast(Kernel, _Uncompiled(function, keep=False))


class _Uncompiled:
    """Stands for a kernel in its module until it is first called; then the kernel takes its place."""

    def __init__(self, function: Callable[..., Any], *, keep: bool) -> None:
        self._function = cast(FunctionType, function)
        self._keep = keep

    def __call__(self, *arguments: Any) -> Any:
        return self.compiled()(*arguments)

    def compiled(self) -> Callable[..., Any]:
        function = self._function
        made = function.__globals__[function.__name__] = _compiled(function, keep=self._keep)
        for value in list(function.__globals__.values()):
            if isinstance(value, _Uncompiled) and not value._keep:
                value.compiled()  # a helper: the compiler looks for it by its name
        return made


def _compiled(function: Callable[..., Any], *, keep: bool) -> Callable[..., Any]:
    import numba

    try:
        made: Any = numba.njit(nogil=True, cache=keep)(function)
    except RuntimeError:  # no folder to keep it in
        made = numba.njit(nogil=True)(function)
    return cast(Callable[..., Any], made)

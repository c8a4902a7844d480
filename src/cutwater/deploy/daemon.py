"""How does a replacement slot start fast? Spark forks its Python workers from a process that imported everything.

Named by `spark.python.daemon.module` in embedded sessions. It must not start a thread that a fork would lose, and gRPC
least of all: it imports, and does nothing else.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import os
import sys

MODULES = (
    "msgspec",
    "numba",
    "pandas",
    "cloudpickle",
    "pyarrow",
    "pyarrow.compute",
    "pyarrow.flight",
    "pyarrow.fs",
    "pyspark.worker",
    "pyspark.sql.conversion",
    "cutwater.deploy.slot_process",
    "cutwater.runtime.slot",
)

MADV_PAGEOUT = 21
"""Of linux/mman.h: the kernel may take these pages back. They are unchanged parts of files, so nothing is lost."""


def import_everything() -> None:
    """What can't be imported here will be missed, with a clear error, where it is used."""
    # A pool of BLAS threads would be lost by the fork.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Spark reads the port from our stdout: nothing else may be written to it.
    with contextlib.redirect_stdout(sys.stderr):
        for name in MODULES:
            with contextlib.suppress(Exception):
                importlib.import_module(name)
        with contextlib.suppress(Exception):
            _load_the_library_of_kernels()
    gc.collect()
    gc.freeze()  # the workers share this memory as long as nobody touches it
    with contextlib.suppress(Exception):
        _let_go_of_code_that_ran_once()


def _load_the_library_of_kernels() -> None:
    """Numba would load what kernels may call with the first kernel: in every slot, and after every failure."""
    from numba.core.registry import cpu_target

    cpu_target.typing_context.refresh()
    cpu_target.target_context.refresh()


def _let_go_of_code_that_ran_once() -> None:
    """Loading LLVM touches 60 MB of its code, which this process never runs again: slots map what they need."""
    with open("/proc/self/maps") as maps:
        mappings = [line.split() for line in maps]
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    for addresses, permissions, _offset, _device, inode, *_path in mappings:
        if inode != "0" and "w" not in permissions:
            start, end = (int(address, 16) for address in addresses.split("-"))
            madvise(start, end - start, MADV_PAGEOUT)


if __name__ == "__main__":
    import_everything()
    from pyspark.daemon import manager

    manager()

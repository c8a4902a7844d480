"""How does a replacement slot start fast? Spark forks its Python workers from a process that imported everything.

Named by `spark.python.daemon.module` in embedded sessions. It must not start a thread that a fork would lose, and gRPC
least of all: it imports, and does nothing else.
"""

from __future__ import annotations

import contextlib
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


def _load_the_library_of_kernels() -> None:
    """Numba would load what kernels may call with the first kernel: in every slot, and after every failure."""
    from numba.core.registry import cpu_target

    cpu_target.typing_context.refresh()
    cpu_target.target_context.refresh()


if __name__ == "__main__":
    import_everything()
    from pyspark.daemon import manager

    manager()

"""Flink's state and failure recovery for PySpark: exactly-once dataflows on any Spark cluster.

The public names; nothing else is promised to stay.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cutwater.public import *  # noqa: F403

__version__ = "0.1.0"

__all__ = [
    "AggregatingState",
    "BroadcastContext",
    "Checkpoints",
    "Control",
    "Column",
    "ConnectedStreams",
    "DataStream",
    "DeadLetter",
    "Environment",
    "Guarantee",
    "JobHandle",
    "JobOptions",
    "JobResult",
    "JobState",
    "JobStatus",
    "KeyedStream",
    "ListState",
    "MapState",
    "PathGuarantee",
    "Plan",
    "ProcessContext",
    "ReducingState",
    "Row",
    "TlsFiles",
    "Ttl",
    "ValueState",
    "WindowContext",
    "WindowedStream",
    "__version__",
    "agg",
    "col",
    "count_window",
    "errors",
    "evictors",
    "formats",
    "global_window",
    "lit",
    "partitions",
    "restart",
    "retry",
    "session",
    "sinks",
    "sliding",
    "sources",
    "triggers",
    "tumbling",
    "watermarks",
    "when",
]


def __getattr__(name: str) -> Any:
    """Arrow is imported with the first public name, not with the package: the command line often needs none."""
    if name not in __all__:
        raise AttributeError(f"module 'cutwater' has no attribute {name!r}")
    import importlib

    value = globals()[name] = getattr(importlib.import_module("cutwater.public"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

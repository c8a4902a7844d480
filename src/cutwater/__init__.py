"""Flink's state and failure recovery for PySpark: exactly-once dataflows on any Spark cluster.

The public names; nothing else is promised to stay.
"""

from cutwater import errors
from cutwater.api import agg, restart, watermarks
from cutwater.api.connected import ConnectedStreams
from cutwater.api.environment import Environment
from cutwater.api.jobs import JobHandle
from cutwater.api.keyed import KeyedStream
from cutwater.api.streams import DataStream
from cutwater.config import Checkpoints, JobOptions, TlsFiles
from cutwater.connectors import sinks, sources
from cutwater.graph.explain import Plan
from cutwater.graph.guarantees import Guarantee, PathGuarantee
from cutwater.protocol.lifecycle import JobState
from cutwater.status import JobResult, JobStatus

__version__ = "0.1.0"

__all__ = [
    "Checkpoints",
    "ConnectedStreams",
    "DataStream",
    "Environment",
    "Guarantee",
    "JobHandle",
    "JobOptions",
    "JobResult",
    "JobState",
    "JobStatus",
    "KeyedStream",
    "PathGuarantee",
    "Plan",
    "TlsFiles",
    "__version__",
    "agg",
    "errors",
    "restart",
    "sinks",
    "sources",
    "watermarks",
]

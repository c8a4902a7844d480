"""The public names, and where they come from. `cutwater` itself imports this when the first of them is asked for."""

from cutwater import errors, retry
from cutwater.api import agg, evictors, restart, triggers, watermarks
from cutwater.api.connected import ConnectedStreams
from cutwater.api.environment import Environment
from cutwater.api.jobs import JobHandle
from cutwater.api.keyed import KeyedStream
from cutwater.api.streams import DataStream
from cutwater.api.windowed import WindowedStream
from cutwater.api.windows import count_window, global_window, session, sliding, tumbling
from cutwater.batches import Row
from cutwater.columns.cases import when
from cutwater.columns.expressions import Column, col, lit
from cutwater.config import Checkpoints, Control, JobOptions, TlsFiles
from cutwater.connectors import formats, partitions, sinks, sources
from cutwater.dead_letters import DeadLetter
from cutwater.graph.explain import Plan
from cutwater.graph.guarantees import Guarantee, PathGuarantee
from cutwater.operators.connect import BroadcastContext
from cutwater.operators.process import FunctionContext as ProcessContext
from cutwater.operators.windows.contexts import WindowContext
from cutwater.protocol.lifecycle import JobState
from cutwater.state.contract import AggregatingState, ListState, MapState, ReducingState, ValueState
from cutwater.state.ttl import Ttl
from cutwater.status import JobResult, JobStatus

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

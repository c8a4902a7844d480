"""What does a task ask of an operator?

An operator is called by one thread. It receives batches, emits batches through its context, and takes part in
checkpoints through `freeze`. Watermarks, barriers and the end of input are handled by the chain around it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from cutwater.batches import Batch
from cutwater.protocol.ids import AttemptNumber, CheckpointId
from cutwater.state.contract import FrozenKeyedState, KeyedBackend


@dataclass(frozen=True, slots=True)
class FrozenList:
    """Operator state at a barrier: items that are split among the tasks on restore, or all given to each (union)."""

    name: str
    items: tuple[bytes, ...]
    redistribution: Literal["split", "union"] = "split"


@dataclass(frozen=True, slots=True)
class OperatorSnapshot:
    """What one operator adds to a checkpoint."""

    keyed: FrozenKeyedState | None = None
    lists: tuple[FrozenList, ...] = ()


@dataclass(slots=True)
class OperatorContext:
    """What an operator may use. Made by the task before `open`."""

    job_id: str
    job_name: str
    uid: str
    name: str
    subtask: int
    parallelism: int
    max_parallelism: int
    attempt: AttemptNumber
    now_seconds: Callable[[], float]
    #: Sends a batch down the main output.
    emit: Callable[[Batch], None]
    #: Sends a batch down a side output; a tag that nobody reads is dropped.
    emit_side: Callable[[str, Batch], None]
    #: Opens this operator's keyed state; the restored state is already in it. None for operators without a key.
    keyed_backend: Callable[[], KeyedBackend]
    #: The restored items of operator state, by name; empty on a fresh start.
    restored_lists: dict[str, list[bytes]] = field(default_factory=dict)
    #: Runs a function on a background thread, then a callback (result, error) on the loop's thread.
    run_in_background: Callable[[Callable[[], Any], Callable[[Any, BaseException | None], None]], None] = None  # type: ignore[assignment]
    #: Sends a value to the connector's driver side (`Sink.receive`).
    report: Callable[[Any], None] = None  # type: ignore[assignment]


class Operator(ABC):
    """The runtime side of one operator, one instance per task."""

    context: OperatorContext

    def open(self, context: OperatorContext) -> None:
        """Before the first batch, after state was restored. May block."""
        self.context = context

    @abstractmethod
    def process(self, batch: Batch, port: int) -> None:
        """Takes a batch that came in on a port; emits any number of batches."""

    def on_watermark(self, timestamp_ms: int) -> None:
        """Event time has advanced; the chain forwards the watermark afterwards."""

    def on_idle_input(self) -> None:
        """No input is ready right now: a moment to flush what only waits for more."""

    def on_end(self) -> None:
        """All inputs have ended: emit what is left. The end is forwarded afterwards."""

    def freeze(self, checkpoint: CheckpointId) -> OperatorSnapshot:
        """The synchronous part of a snapshot; must be quick. Nothing may be emitted here."""
        return OperatorSnapshot()

    def on_checkpoint_completed(self, checkpoint: CheckpointId) -> None:
        """The checkpoint is complete and durable. May be skipped for a checkpoint when a later one completes."""

    def busy(self) -> bool:
        """True while background work must end before the task may count as finished (a commit under way)."""
        return False

    def close(self) -> None:
        """Releases what the operator holds. Called once, also after a failure."""


class SourceOperator(Operator):
    """The head of a chain without inputs: the task polls it."""

    @abstractmethod
    def poll(self) -> bool:
        """Emits what can be read now, a batch at the most; False: nothing was there."""

    @property
    @abstractmethod
    def finished(self) -> bool:
        """No record will ever come again."""

    @abstractmethod
    def wants_split(self) -> bool:
        """True once, when the reader needs another split; the task forwards the request."""

    @abstractmethod
    def add_splits(self, splits: Sequence[Any]) -> None: ...

    @abstractmethod
    def no_more_splits(self) -> None: ...

    @abstractmethod
    def stop(self) -> None:
        """Read no further. Unfinished splits stay in the snapshots, so that a later run can go on with them."""

    @abstractmethod
    def wake_at(self) -> float | None: ...

    @abstractmethod
    def take_progress(self) -> tuple[int, bytes] | None:
        """At most once: a batch was read and waits; (its sequence, the encoded readers behind it), once per batch."""

    @abstractmethod
    def confirm(self, sequence: int) -> None:
        """At most once: the coordinator knows the progress up to this batch; it may be emitted."""

    def process(self, batch: Batch, port: int) -> None:
        raise AssertionError("a source has no input")

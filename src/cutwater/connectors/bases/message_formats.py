"""What must a format of messages be able to do, beyond text and JSON?"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from cutwater.batches import Batch

Encode: TypeAlias = Callable[[Batch], "list[bytes | None]"]
"""The messages of a batch; None for a record that is None."""


class MessageFormat(ABC):
    """Turns messages into records, and records into messages. Holds settings only: it is pickled with the job."""

    @property
    @abstractmethod
    def schema(self) -> pa.Schema | None:
        """Of typed rows; None: records are Python values."""

    @abstractmethod
    def of_topic(self, topic: str | None) -> MessageFormat:
        """The same for messages of one topic; None: of several. In the driver, when the job is written: may block."""

    @abstractmethod
    def check(self, *, writes: bool) -> None:
        """Raises a clear error when messages can't be read, or written. In the driver: may block."""

    @abstractmethod
    def decode_one(self) -> Callable[[bytes], Any]:
        """Makes the function from a message to its value. In a slot; used by one thread, which the function may block.

        It raises `OperationsError` when the message is not to blame.
        """

    @abstractmethod
    def decode_rows(self, columns: pa.Schema) -> Callable[[Sequence[bytes | None]], pa.RecordBatch]:
        """The same for typed rows with these columns, many at once. None is a row of nulls."""

    @abstractmethod
    def encode(self) -> Encode:
        """Makes the function from records to messages. In a slot: may block; the function must not."""

"""How are files on a server read and written without making the loop wait?

By the readers and writers of local files, each on a thread of its own. A reader is a few batches ahead of the loop, and
opens the file again behind the last batch when the server was gone. A writer is behind it by a bounded queue, and what
it prepares at a barrier is a promise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cutwater.batches import Batch
from cutwater.connectors.bases.fetching import Fetched, Fetcher, FetchingReader
from cutwater.connectors.bases.sending import Sender, SendingWriter
from cutwater.connectors.contract import ReaderContext, SinkWriter, SplitReader, WriterContext
from cutwater.connectors.failures import PeerError
from cutwater.errors import StorageError
from cutwater.protocol.ids import CheckpointId

Opening = Callable[[Any], SplitReader]
"""Opens the split at a position. May block."""


def reader_on_thread(opening: Opening, position: Any, context: ReaderContext, *, name: str) -> SplitReader:
    return FetchingReader(_FileFetcher(opening), position, context, name=name)


class WriterOnThread(SendingWriter):
    """Has another writer write, which may block."""

    def __init__(self, writer: SinkWriter, context: WriterContext) -> None:
        super().__init__(writer.sink, _FileSender(writer), context)
        self._writer = writer

    def release(self) -> None:
        self._writer.release()

    def commit(self, committables: Sequence[bytes]) -> None:
        self._writer.commit(committables)


class _FileFetcher(Fetcher):
    def __init__(self, opening: Opening) -> None:
        self._opening = opening
        self._reader: SplitReader | None = None

    def connect(self, position: Any) -> None:
        self._reader = self._asking(lambda: self._opening(position))

    def fetch(self, limit: int) -> Fetched:
        reader = self._reader
        assert reader is not None, "connect comes first"
        batch = self._asking(lambda: reader.read(limit, 0.0))
        unreadable = reader.take_unreadable()
        return Fetched(reader.position, batch, ends_split=reader.finished, unreadable=unreadable)

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _asking(self, action: Callable[[], Any]) -> Any:
        """What the file system refuses may be a server that is gone; what is wrong with the file fails at once."""
        try:
            return action()
        except FileNotFoundError as error:
            raise StorageError("a file has vanished", detail=str(error)) from error
        except OSError as error:
            raise PeerError("a file can't be read", detail=str(error)) from error


class _FileSender(Sender):
    """The client waits for a server that is gone. Half a file can't be written again: then the attempt fails."""

    resends = False

    def __init__(self, writer: SinkWriter) -> None:
        self._writer = writer

    def connect(self) -> None:
        """The file system does, when it is asked."""

    def send(self, batch: Batch) -> None:
        self._writer.write(batch)

    def prepare(self, checkpoint: CheckpointId) -> Sequence[bytes]:
        prepared = self._writer.prepare(checkpoint)
        assert isinstance(prepared, Sequence), "a writer of files promises nothing: it waits"
        return prepared

    def close(self) -> None:
        self._writer.close()

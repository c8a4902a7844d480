"""How does a function get the rows of each completed checkpoint as a Spark DataFrame?

The writers fill Parquet files in a staging folder, as the file sink does, and their names are the committables. When
the checkpoint is complete the driver publishes the files of all tasks, lets Spark read them, calls the function, notes
that the epoch is done, and deletes them. A recovery does the same with what its snapshot names and no note says is
done: under the same numbers, with the same files.
"""

from __future__ import annotations

import copy
import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
import pyarrow as pa

from cutwater.connectors.contract import Attachment, Delivery, DriverContext, Pieces, Sink, SinkWriter, WriterContext
from cutwater.connectors.failures import user_function_failed
from cutwater.connectors.file_sink import FileSink
from cutwater.connectors.file_writer import FileWriter
from cutwater.connectors.prepared_files import decode_prepared
from cutwater.connectors.settings import check_callable, check_positive
from cutwater.connectors.spark.applied import AppliedEpochs, Epoch
from cutwater.connectors.spark.folders import staging_folder
from cutwater.errors import ConfigurationError, SnapshotDamagedError, StorageError
from cutwater.protocol.ids import AttemptNumber, CheckpointId

Apply = Callable[[Any, int], object]
_ROLL_BYTES = 128 << 20


def for_each_epoch(
    function: Apply, *, schema: pa.Schema | None = None, staging: str | None = None, roll_bytes: int = _ROLL_BYTES
) -> EpochSink:
    """Calls `function(dataframe, epoch)` in the driver with the rows of each completed checkpoint, a Spark DataFrame.

    Exactly once if the function is idempotent in `epoch`: after a failure it may get the same epoch again, with the
    same rows, and no epoch ever comes with other rows. Epochs are numbers that grow, with gaps, also when the job is
    restored; one without rows is left out. Calls come one at a time and in order. The next checkpoint completes only
    after the call for this one, and the job ends only after its last epoch. A function that raises fails the attempt,
    and the recovery calls it again.

    The DataFrame can be read during the call only; its rows have no order. The function and what it refers to stay in
    the driver: it may use the SparkSession.

    `schema`: the columns, for a stream of values; left out, they are taken from the records, as `parquet` does.
    `staging`: a folder that driver and executors see, for the rows on their way; left out, the storage of the
    checkpoints. `roll_bytes`: a file that grows larger is followed by another one.
    """
    check_callable("for_each_epoch(…)", function)
    check_positive("roll_bytes", roll_bytes)
    return EpochSink(function, schema=schema, staging=staging, roll_bytes=roll_bytes)


class _Committable(msgspec.Struct, frozen=True, array_like=True):
    epoch: Epoch
    #: A `PreparedFile`.
    file: bytes


_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(_Committable)


class EpochSink(Sink):
    """In the driver it has the function and the session; pickled on its way to the slots, only the folder."""

    delivery = Delivery.WRITE_AHEAD
    commits_in_driver = True
    uses_spark = True

    def __init__(
        self, function: Apply | None, *, schema: pa.Schema | None, staging: str | None, roll_bytes: int
    ) -> None:
        self._function = function
        self._schema = schema
        self._staging = staging
        self._roll_bytes = roll_bytes
        self._name = f"for_each_epoch({getattr(function, '__name__', type(function).__name__)})"
        self._spark: Callable[[], Any] | None = None
        self._files: FileSink | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_function": None, "_spark": None}

    @property
    def name(self) -> str:
        return self._name

    @property
    def folder(self) -> str:
        return self._staged.folder

    def introduced(self, context: DriverContext) -> Sink:
        folder = staging_folder(context, self._staging)
        sink = copy.copy(self)
        sink._function = self._function  # what pickles drop, copies lose
        sink._files = FileSink(
            folder, "parquet", schema=self._schema, roll_bytes=self._roll_bytes, title=folder, if_exists="append"
        )
        sink._spark = context.spark
        return sink

    def check(self, *, restores: bool = False) -> None:
        self._staged.check(restores=restores)

    def writer(self, context: WriterContext) -> SinkWriter:
        return EpochWriter(self._staged, context)

    def attachments(self, committables: Sequence[bytes]) -> Sequence[Attachment]:
        return self._staged.attachments([_decode(committable).file for committable in committables])

    def commit(self, committables: Sequence[bytes]) -> None:
        for epoch, files in _by_epoch(committables).items():
            with self._guarded():
                is_applied = self._is_applied(epoch, files)
            if not is_applied:
                self._staged.commit(files)
                self._apply(epoch, files)

    def recover(
        self,
        *,
        job_id: str,
        uid: str,
        committables: Sequence[bytes],
        attempt: AttemptNumber | None = None,
        run: str = "0",
        attached: Mapping[str, Pieces] | None = None,
        parallelism_before: int | None = None,
    ) -> None:
        epochs = _by_epoch(committables)
        with self._guarded():
            applied = {epoch for epoch, files in epochs.items() if self._is_applied(epoch, files)}
            for epoch in applied:  # a crash between the note and the deletion leaves files behind
                self._delete(epochs.pop(epoch))
        self._staged.recover(
            job_id=job_id,
            uid=uid,
            committables=[file for files in epochs.values() for file in files],
            attempt=attempt,
            run=run,
            attached=attached,
            parallelism_before=parallelism_before,
        )
        for epoch, files in epochs.items():
            self._apply(epoch, files)

    @property
    def _staged(self) -> FileSink:
        if self._files is None:
            raise ConfigurationError(f"{self._name} needs Spark", hint="run the job on Spark: cw.Environment(spark=…)")
        return self._files

    def _is_applied(self, epoch: Epoch, files: Sequence[bytes]) -> bool:
        """Here, or where it was prepared: the job may be restored with another folder."""
        folders = {self.folder, *(decode_prepared(file).folder for file in files)}
        return any(epoch in AppliedEpochs(folder) for folder in folders if folder)

    def _apply(self, epoch: Epoch, files: Sequence[bytes]) -> None:
        assert self._function is not None, "epochs are applied in the driver"
        assert self._spark is not None, "epochs are applied in the driver"
        reader = self._spark().read
        if self._schema is None:  # else columns that only some of the values have would be lost
            reader = reader.option("mergeSchema", "true")
        dataframe = reader.parquet(*map(self._path, files))
        try:
            self._function(dataframe, epoch.number)
        except Exception as error:
            raise user_function_failed(self._name, error, given=f"epoch {epoch.number}") from error
        with self._guarded():
            AppliedEpochs(self.folder).add(epoch)
            self._delete(files)

    def _delete(self, files: Sequence[bytes]) -> None:
        for file in files:
            self._staged.files.delete(self._path(file))

    def _path(self, file: bytes) -> str:
        return os.path.join(self.folder, decode_prepared(file).final)

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StorageError(f"the staging folder {self.folder!r} can't be used", detail=str(error)) from error


class EpochWriter(FileWriter):
    """A writer of files whose committables know their epoch."""

    def __init__(self, sink: FileSink, context: WriterContext) -> None:
        super().__init__(sink, context)
        self._run = context.run
        self._attempt = int(context.attempt)

    def prepare(self, checkpoint: CheckpointId) -> list[bytes]:
        epoch = Epoch(self._run, self._attempt, int(checkpoint))
        return [_encode(_Committable(epoch, file)) for file in super().prepare(checkpoint)]

    def commit(self, committables: Sequence[bytes]) -> None:
        """The driver does it."""


def _decode(committable: bytes) -> _Committable:
    try:
        return _decoder.decode(committable)
    except msgspec.DecodeError as error:
        raise SnapshotDamagedError("prepared output is not that of for_each_epoch", detail=str(error)) from error


def _by_epoch(committables: Sequence[bytes]) -> dict[Epoch, list[bytes]]:
    """The files of each epoch, in order of the epochs."""
    found: dict[Epoch, list[bytes]] = defaultdict(list)
    for committable in map(_decode, committables):
        found[committable.epoch].append(committable.file)
    return dict(sorted(found.items(), key=lambda entry: entry[0].number))

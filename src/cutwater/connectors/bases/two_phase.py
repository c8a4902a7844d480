"""How does a database that can prepare transactions get every record exactly once?

A writer writes into an open transaction. At the barrier it prepares it: the transaction survives the writer, the slot
and the server, and shows nothing yet. Its name goes into the snapshot; when the checkpoint is complete, it is
committed. A recovering job commits what the snapshot names and rolls back what else earlier attempts of the same run
prepared.

A name that isn't prepared any more was committed or rolled back. To tell which, every transaction also inserts its
number into a small table. A writer's transactions are committed in order, so that of an attempt the highest number is
enough: lower ones are deleted.

A savepoint may be restored after a failover has rolled its transactions back. So a writer keeps the encoded rows of a
transaction until it is committed, in a nameless local file, and a savepoint holds a copy of them: what is neither
prepared nor recorded is written anew from it.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, BinaryIO

import msgspec

from cutwater.batches import Batch
from cutwater.connectors.bases.patience import Patience
from cutwater.connectors.bases.sending import Sender
from cutwater.connectors.contract import Attachment, Delivery, Pieces, Sink, WriterContext
from cutwater.connectors.failures import PeerError
from cutwater.errors import SnapshotDamagedError, StorageError
from cutwater.protocol.ids import AttemptNumber, CheckpointId

#: Where transactions record their numbers, unless the user names another table.
EPOCHS_TABLE = "cutwater_epochs"
_PIECE_BYTES = 1 << 20
#: A transaction may be in someone else's hands for a moment: its writer's connection, or another who commits it.
_BUSY_WAIT_SECONDS = 30.0
_BUSY_PAUSE_SECONDS = 0.02


class Transaction(msgspec.Struct, frozen=True, array_like=True):
    """A committable: what one task wrote between two barriers."""

    #: Digest of the job, the sink and the run: no other run touches it.
    owner: str
    attempt: int
    subtask: int
    #: Of the writer's transactions; known when one begins, unlike the checkpoint that will end it.
    number: int
    #: How its rows are encoded in the copy that a savepoint holds, in the words of the connector.
    encoding: str = ""
    columns: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"cutwater-{self.owner}-{self.attempt}-{self.subtask}-{self.number}"

    @property
    def writer(self) -> str:
        """Whose transactions are committed in order."""
        return f"{self.owner}-{self.attempt}-{self.subtask}"


_NAME = re.compile(r"cutwater-([0-9a-f]+)-(\d+)-(\d+)-(\d+)")


def transaction_named(name: str) -> Transaction | None:
    """None: the name is not one of ours."""
    match = _NAME.fullmatch(name)
    return None if match is None else Transaction(match[1], int(match[2]), int(match[3]), int(match[4]))


def owner_of(*, job_id: str, uid: str, run: str) -> str:
    """Digest of one sink in one run of a job; short, as names of transactions are."""
    return hashlib.sha256(msgspec.msgpack.encode((job_id, uid, run))).hexdigest()[:24]


class Database(ABC):
    """A connection for the second phase. Used by one thread; every method may block and raise `PeerError`."""

    @abstractmethod
    def commit(self, name: str) -> bool:
        """False: there is no such transaction, or not yet, or not any more, or it is in someone else's hands."""

    @abstractmethod
    def roll_back(self, name: str) -> bool:
        """Like `commit`."""

    @abstractmethod
    def prepared(self) -> Sequence[str]:
        """The names of all prepared transactions, ours or not."""

    @abstractmethod
    def recorded(self, writer: str) -> int | None:
        """The highest number of this writer in the table of epochs, if there is the table and any."""

    @abstractmethod
    def forget(self, writer: str, *, below: int) -> None:
        """Deletes the records of lower numbers: the higher one stands for them."""

    @abstractmethod
    def write_anew(self, transaction: Transaction, pieces: Pieces) -> None:
        """Writes the rows and the record in an ordinary transaction; nothing if the record is there already."""

    @abstractmethod
    def close(self) -> None:
        """Releases the connection. Must not raise."""

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class TwoPhaseSink(Sink):
    """Subclasses say how to reach the database, and make writers whose sender is a `TwoPhaseSender`."""

    delivery = Delivery.TRANSACTIONAL

    def __init__(self) -> None:
        self._kept: dict[str, BinaryIO] = {}
        self._committed: dict[str, str] = {}
        self._recovered: tuple[str, AttemptNumber | None] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Settings travel, open files don't."""
        return {**self.__dict__, "_kept": {}, "_committed": {}, "_recovered": None}

    @abstractmethod
    def database(self) -> Database:
        """Connects. In a slot or in the driver: may block, raises `PeerError`."""

    def commit(self, committables: Sequence[bytes]) -> None:
        transactions = [decode_transaction(committable) for committable in committables]
        self._patiently(partial(self._commit_all, transactions, {}, forgets=True))
        for transaction in transactions:
            self._committed_now(transaction)

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
        transactions = [decode_transaction(committable) for committable in committables]
        owner = owner_of(job_id=job_id, uid=uid, run=run)
        self._patiently(partial(self._commit_all, transactions, attached or {}, forgets=False))
        self._patiently(partial(self._roll_back_others, owner, attempt, {each.name for each in transactions}))
        self._recovered = (owner, attempt)

    def job_ended(self, failure: BaseException | None) -> None:
        """An earlier attempt's writer that hung may have prepared something since: no other attempt will see to it."""
        if self._recovered is not None:
            owner, attempt = self._recovered
            try:
                self._roll_back_others(owner, attempt, set())
            except PeerError:
                return  # the job is over as it is; the next run of this id begins with it

    def attachments(self, committables: Sequence[bytes]) -> Sequence[Attachment]:
        names = [decode_transaction(committable).name for committable in committables]
        # What isn't kept any more has been committed.
        return [Attachment(name, partial(_pieces_of, self._kept[name])) for name in names if name in self._kept]

    def keep(self, transaction: Transaction, rows: BinaryIO) -> None:
        """The rows, until they are committed. The file is closed when the last who reads it lets go of it."""
        self._kept[transaction.name] = rows

    def _committed_now(self, transaction: Transaction) -> None:
        """Rows are kept one commit longer: a savepoint that is being written may just be about to copy them."""
        before = self._committed.get(transaction.writer)
        self._committed[transaction.writer] = transaction.name
        if before is not None:
            self._kept.pop(before, None)

    def _commit_all(
        self, transactions: Sequence[Transaction], attached: Mapping[str, Pieces], *, forgets: bool
    ) -> None:
        if not transactions:
            return
        with self.database() as database:
            for transaction in transactions:
                self._commit_one(database, transaction, attached.get(transaction.name))
            if forgets:
                highest = {each.writer: each.number for each in transactions}
                for writer, number in highest.items():
                    database.forget(writer, below=number)

    def _commit_one(self, database: Database, transaction: Transaction, attached: Pieces | None) -> None:
        """In any state in which a crash, or another process that does the same, may have left it."""
        if _waits_while_busy(database, transaction.name, database.commit) or _is_recorded(database, transaction):
            return
        if attached is None:
            raise self._lost(transaction)
        database.write_anew(transaction, attached)

    def _roll_back_others(self, owner: str, before: AttemptNumber | None, named: set[str]) -> None:
        with self.database() as database:
            for name in database.prepared():
                found = transaction_named(name)
                if found is None or found.owner != owner or name in named:
                    continue
                if before is None or found.attempt < before:
                    _waits_while_busy(database, name, database.roll_back)

    def _patiently(self, action: Callable[[], None]) -> None:
        """A server that restarts is waited for: both phases may be done again."""
        patience = Patience(f'sink "{self.name}"', now_seconds=time.monotonic)
        while True:
            try:
                action()
                patience.succeeded()
                return
            except PeerError as error:
                time.sleep(patience.failed(error))

    def _lost(self, transaction: Transaction) -> StorageError:
        return StorageError(
            f'prepared transaction "{transaction.name}" of sink "{self.name}" is lost',
            detail="it is neither prepared nor recorded as committed; someone rolled it back, or it was prepared in "
            "another database",
            hint="restore a savepoint, which holds a copy of its rows, into this database; or a newer checkpoint",
        )


class TwoPhaseSender(Sender):
    """Writes into a transaction that begins with the first record after a barrier."""

    resends = False

    def __init__(self, sink: TwoPhaseSink, context: WriterContext) -> None:
        self._sink = sink
        self._context = context
        self._owner = owner_of(job_id=context.job_id, uid=context.uid, run=context.run)
        self._rows: BinaryIO | None = None
        self._number = 0

    @abstractmethod
    def begin(self, name: str) -> None:
        """Begins a transaction that will be prepared under this name."""

    @abstractmethod
    def write(self, batch: Batch, rows: BinaryIO) -> None:
        """Writes the records, and their encoded rows into the file as well."""

    @abstractmethod
    def prepare_transaction(self, transaction: Transaction) -> None:
        """Inserts the number into the table of epochs and prepares the transaction: it must survive this connection."""

    @property
    @abstractmethod
    def layout(self) -> tuple[str, tuple[str, ...]]:
        """Encoding and columns of the rows since `begin`."""

    def send(self, batch: Batch) -> None:
        if self._rows is None:
            # A new one also when the server was gone: it may not have noticed yet that the last one came to nothing.
            self._number += 1
            self.begin(self._transaction().name)
            self._rows = _nameless_file()
        self.write(batch, self._rows)

    def prepare(self, checkpoint: CheckpointId) -> Sequence[bytes]:
        if self._rows is None:
            return ()
        encoding, columns = self.layout
        transaction = msgspec.structs.replace(self._transaction(), encoding=encoding, columns=columns)
        self._rows.flush()
        self.prepare_transaction(transaction)
        self._sink.keep(transaction, self._rows)
        self._rows = None
        return (msgspec.msgpack.encode(transaction),)

    def close(self) -> None:
        self._rows = None

    def _transaction(self) -> Transaction:
        task = self._context
        return Transaction(self._owner, task.attempt, task.subtask, self._number)


def decode_transaction(committable: bytes) -> Transaction:
    try:
        transaction = msgspec.msgpack.decode(committable, type=Transaction)
    except msgspec.DecodeError as error:
        raise SnapshotDamagedError("prepared output is not that of a database sink", detail=str(error)) from error
    if transaction_named(transaction.name) is None:
        raise SnapshotDamagedError("prepared output has a name that no sink gives", detail=repr(transaction.name))
    return transaction


def _is_recorded(database: Database, transaction: Transaction) -> bool:
    number = database.recorded(transaction.writer)
    return number is not None and number >= transaction.number


def _waits_while_busy(database: Database, name: str, action: Callable[[str], bool]) -> bool:
    """Whether it was done. False: the transaction isn't prepared any more."""
    deadline = time.monotonic() + _BUSY_WAIT_SECONDS
    while not action(name):
        if name not in database.prepared():
            return False
        if time.monotonic() > deadline:
            raise PeerError(
                f'prepared transaction "{name}" can\'t be finished',
                detail=f"another connection holds it, for more than {_BUSY_WAIT_SECONDS:.0f} s",
                hint="end that connection",
            )
        time.sleep(_BUSY_PAUSE_SECONDS)
    return True


def _nameless_file() -> BinaryIO:
    """It is gone with the process, whatever ends it."""
    return tempfile.TemporaryFile(prefix="cutwater-rows-")


def _pieces_of(file: BinaryIO) -> Iterator[bytes]:
    """By position: several may read the file at the same time."""
    offset = 0
    while piece := os.pread(file.fileno(), _PIECE_BYTES, offset):
        offset += len(piece)
        yield piece

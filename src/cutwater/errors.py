"""Who must act on a failure, and can a retry help?

`UserError`: the author of the job must change something. `OperationsError`: the operator of the job must (storage,
slots, network). `InternalError`: we must. Each carries the fact, the detail and a hint.
"""

from __future__ import annotations


class CutwaterError(Exception):
    """A failure that says what happened, the detail, and what to do next."""

    retryable = False

    def __init__(self, fact: str, *, detail: str = "", hint: str = "") -> None:
        super().__init__(fact)
        self.fact = fact
        self.detail = detail
        self.hint = hint

    @property
    def in_one_line(self) -> str:
        """The fact and what it comes from, for reports of one line."""
        cause = self.detail.partition("\n")[0]
        return f"{self.fact} ({cause})" if cause and cause not in self.fact else self.fact

    def __str__(self) -> str:
        return described(self.fact, self.detail, self.hint)

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.fact, self.detail, self.hint)


def described(fact: str, detail: str, hint: str) -> str:
    """What is there of the three, in lines."""
    lines = [fact]
    if detail:
        lines.append(f"  detail: {detail}")
    if hint:
        lines.append(f"  hint:   {hint}")
    return "\n".join(lines)


def _rebuild(kind: type[CutwaterError], fact: str, detail: str, hint: str) -> CutwaterError:
    return kind(fact, detail=detail, hint=hint)


class UserError(CutwaterError):
    """The job's author must change the program or its options."""


class GraphError(UserError):
    """The dataflow can't be executed as written."""


class UnknownOperationError(UserError, AttributeError):
    """A stream or environment has no operation of this name."""


class SchemaError(UserError):
    """Records or batches don't have the columns or types that were promised."""


class BadTimestampError(UserError):
    """A record's timestamp is missing, out of range, or not a timestamp."""


class ConfigurationError(UserError):
    """An option is unknown, out of range, or contradicts another."""


class GuaranteeError(UserError):
    """The job asked for more than its source, mode and sink can give together."""


class KeyTypeError(UserError):
    """A key has no stable bytes, so it can't be sent to the same task in every process."""


class SerializationError(UserError):
    """A function or a value can't be turned into bytes."""


class UserFunctionError(UserError):
    """A user's function raised; the job restarts as its strategy allows."""

    retryable = True


class OperationsError(CutwaterError):
    """Storage, slots or the network failed. A retry may help; otherwise the operator of the job must act."""

    retryable = True


class StorageError(OperationsError):
    """A storage location can't be read or written."""


class SnapshotDamagedError(OperationsError):
    """A snapshot, or a file of it, does not verify; the next attempt chooses one that does."""


class SnapshotUntrustedError(SnapshotDamagedError):
    """A snapshot, or an entry of the journal, was not signed with the job's secret."""

    retryable = False


class RecoveryRefusedError(OperationsError):
    """There are snapshots, but none that can be restored: a person must decide."""

    retryable = False


class ChannelBrokenError(OperationsError):
    """The connection between two tasks ended before its time; most often the other slot is lost."""

    retryable = True


class SlotsMissingError(OperationsError):
    """The cluster did not provide as many slots as the job needs."""

    retryable = False


class JobFailedError(OperationsError):
    """The job ended in failure; the cause is chained."""

    retryable = False


class AttemptFencedError(OperationsError):
    """A newer attempt owns this job; this one may publish and commit nothing more."""

    retryable = False


class SimulationBrokenError(UserError):
    """A simulated job did not give the answer of a run without failures."""


class InternalError(CutwaterError):
    """A bug in Cutwater: one of its invariants is broken. A restart from the last snapshot may avoid it."""

    retryable = True

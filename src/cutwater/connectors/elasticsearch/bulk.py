"""What became of each document of a bulk request?

Such a request succeeds even if none of its operations did: each has its own answer. Some are to be tried again, some
are as good as done, and the rest will never succeed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from cutwater.connectors.elasticsearch.cluster import Connection, TooLarge
from cutwater.connectors.elasticsearch.documents import Operation
from cutwater.connectors.failures import PeerError
from cutwater.errors import ConfigurationError, CutwaterError, SchemaError

OPERATIONS_PER_REQUEST = 5_000
_NOT_NOW = (429, 502, 503, 504)


class Unfinished:
    """Operations that the server has not acknowledged. No two of them concern one document, so any order will do."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        self._left = deque(operations)

    def finish(self, connection: Connection) -> None:
        """Sends until everything is acknowledged. After a `PeerError`, what is left can be finished later."""
        while self._left:
            operations, body = self._next_request(connection.request_bytes_max)
            try:
                items = connection.bulk(body)
            except TooLarge as error:
                if len(operations) == 1:
                    raise SchemaError(
                        f"{_named(operations[0])} is too large for Elasticsearch", detail=str(error)
                    ) from error
                connection.request_bytes_max = len(body) // 2
                self._left.extendleft(reversed(operations))
                continue
            except PeerError:
                self._left.extendleft(reversed(operations))
                raise
            rejected, reason = _rejected(operations, items)
            self._left.extend(rejected)
            if rejected:
                detail = f"{len(rejected)} of {len(operations)} documents: {reason}"
                raise PeerError(f"Elasticsearch at {connection.title} does not take all documents now", detail=detail)

    def _next_request(self, bytes_max: int) -> tuple[list[Operation], bytes]:
        operations: list[Operation] = []
        lines: list[bytes] = []
        size = 0
        while self._left and len(operations) < OPERATIONS_PER_REQUEST:
            line = self._left[0].lines()
            if operations and size + len(line) > bytes_max:
                break
            size += len(line)
            operations.append(self._left.popleft())
            lines.append(line)
        return operations, b"".join(lines)


def _rejected(operations: list[Operation], items: list[Any]) -> tuple[list[Operation], str]:
    """Those to try again, and why the first of them was rejected. Raises for what will never succeed."""
    assert len(items) == len(operations), "an answer for each operation"
    rejected: list[Operation] = []
    reason = ""
    for operation, item in zip(operations, items, strict=True):
        (result,) = item.values()
        status, error = result["status"], result.get("error")
        if status < 300 or _is_as_good_as_done(operation, status, error):
            continue
        if status not in _NOT_NOW:
            raise _refused(operation, status, error)
        rejected.append(operation)
        reason = reason or _words(error)
    return rejected, reason


def _is_as_good_as_done(operation: Operation, status: int, error: Any) -> bool:
    if status == 409:  # it is there already, or a newer version of it
        return operation.creates or operation.version is not None
    return status == 404 and operation.source is None and error is None  # it is gone already


def _refused(operation: Operation, status: int, error: Any) -> CutwaterError:
    fact = f"Elasticsearch refuses {_named(operation)}"
    if status in (401, 403, 404):
        return ConfigurationError(fact, detail=_words(error), hint="create the index, or grant the right to write it")
    source = "" if operation.source is None else f", in {operation.source[:200].decode(errors='replace')}"
    return SchemaError(fact, detail=_words(error) + source, hint="documents must fit the mapping of their index")


def _named(operation: Operation) -> str:
    return f'document "{operation.id}" of index "{operation.index}"'


def _words(error: Any) -> str:
    """Elasticsearch nests reasons: the innermost says most."""
    words = []
    while isinstance(error, dict):
        words.append(f"{error.get('type')}: {error.get('reason')}")
        error = error.get("caused_by")
    return "; ".join(words) or str(error)

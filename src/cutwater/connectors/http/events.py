"""Where do events and lines end in bytes that come in pieces?

The rules of server-sent events are those of the HTML standard ("9.2.6 Interpreting an event stream"), except that a
stream that breaks off in the middle of an event loses it in both.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from cutwater.errors import OperationsError

#: What a server that never ends its line may make us hold.
UNENDED_BYTES_MAX = 64 << 20
_LINE_END = re.compile(rb"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """One event. `id` is the last one that the server gave, here or before; `has_own_id`: here."""

    data: str
    event: str = "message"
    id: str = ""
    has_own_id: bool = False


class Framer(ABC):
    """Cuts bytes into what was sent. One for each response."""

    #: How long the server wants to be left alone before the next connection.
    retry_seconds: float = 0.0

    def __init__(self) -> None:
        self._unended = b""

    @abstractmethod
    def feed(self, data: bytes) -> list[Any]:
        """What is complete with these bytes."""

    def _keep(self, unended: bytes) -> None:
        if len(unended) > UNENDED_BYTES_MAX:
            raise OperationsError(
                "the server sent a line that is too long",
                detail=f"no end after {UNENDED_BYTES_MAX} bytes",
                hint="is it a stream of lines?",
            )
        self._unended = unended


class LineFramer(Framer):
    """Lines, without the empty ones that servers send to keep a connection alive."""

    def feed(self, data: bytes) -> list[bytes]:
        *lines, rest = (self._unended + data).split(b"\n")
        self._keep(rest)
        return [line for line in map(bytes.strip, lines) if line]


class EventFramer(Framer):
    """Server-sent events."""

    def __init__(self, last_id: str = "") -> None:
        super().__init__()
        self._begun = False
        self._last_id = last_id
        self._has_own_id = False
        self._event = ""
        self._data: list[str] = []

    def feed(self, data: bytes) -> list[ServerSentEvent]:
        data = self._unended + data
        if not self._begun:
            if b"\xef\xbb\xbf".startswith(data[:3]) and len(data) < 3:
                self._unended = data
                return []
            data, self._begun = data.removeprefix(b"\xef\xbb\xbf"), True
        # A return at the end may be the first half of a line end.
        held = b"\r" if data.endswith(b"\r") else b""
        *lines, rest = _LINE_END.split(data[: len(data) - len(held)])
        self._keep(rest + held)
        return [event for line in lines if (event := self._line(line.decode(errors="replace"))) is not None]

    def _line(self, line: str) -> ServerSentEvent | None:
        if not line:
            return self._dispatch()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "data":
                self._data.append(value)
            case "event":
                self._event = value
            case "id" if "\0" not in value:
                self._last_id, self._has_own_id = value, True
            case "retry" if value.isascii() and value.isdigit():
                self.retry_seconds = int(value) / 1000
            case _:
                pass  # a comment, or a field that isn't known
        return None

    def _dispatch(self) -> ServerSentEvent | None:
        data, event, has_own_id = self._data, self._event, self._has_own_id
        self._data, self._event, self._has_own_id = [], "", False
        if not data:
            return None
        return ServerSentEvent("\n".join(data), event or "message", self._last_id, has_own_id)

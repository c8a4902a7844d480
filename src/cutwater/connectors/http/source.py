"""How does an HTTP response that never ends become a stream?"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import msgspec

from cutwater.connectors.bases.decoding import Decoder, Place, ValueDecoder, decoder_of
from cutwater.connectors.bases.fetching import FETCH_WAIT_SECONDS, Fetched, Fetcher, FetchingReader
from cutwater.connectors.contract import Discovery, ReaderContext, Replay, Source, SplitReader
from cutwater.connectors.failures import PeerError
from cutwater.connectors.http.events import EventFramer, Framer, LineFramer, ServerSentEvent
from cutwater.connectors.http.response import StreamedResponse, display_name
from cutwater.connectors.settings import check_choice, check_positive
from cutwater.errors import ConfigurationError, OperationsError
from cutwater.protocol.splits import Split

Value: TypeAlias = "str | Callable[[Any], Any] | None"
_ACCEPT = {"sse": "text/event-stream", "ndjson": "application/x-ndjson, application/json"}


def http_stream(
    url: str,
    *,
    format: str = "sse",  # noqa: A002 - as in the other connectors
    headers: Mapping[str, str] | None = None,
    value: Value = None,
    replays: bool = False,
    ends: bool = False,
    idle_seconds: float | None = None,
    ca_file: str | None = None,
) -> HttpStreamSource:
    """A source of server-sent events, or of lines of JSON, from an HTTP server that goes on sending. One task reads.

    Not replayable by itself: what was received but not yet processed when the job fails is lost, and so is what the
    server sends while the source is not connected. With `replays=True` the server promises to go on behind an event
    when its id is given as Last-Event-ID: then the position is the id of the last event, it is in the snapshot, and the
    source is replayable, as far as the server keeps its promise. Every event must have an id of its own then.

    When the response ends or breaks off, the source connects again, with the last id if there is one. It waits longer
    from time to time, at least as long as the server asks for (`retry:`, Retry-After). The answer 204 ends the stream.

    url: `http://…` or `https://…`.
    format: "sse" (server-sent events), or "ndjson" (a JSON value in each line).
    headers: of the request, e.g. `{"Authorization": "Bearer …"}`.
    value: what a record is. "text": the event's data, or the line. "json": the value in it. A function: what it makes
        of the event (`data`, `event`, `id`) or of the line. None: "text" of events, "json" of lines.
    replays: the server goes on behind Last-Event-ID.
    ends: a response that is complete is the end of the stream.
    idle_seconds: a server that is silent for longer, without even a comment, is considered gone. None: never.
    ca_file: certificates of the authorities to trust; None: those of the machine.
    """
    check_choice("format", format, ("sse", "ndjson"))
    parts = urlsplit(url) if isinstance(url, str) else None
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigurationError("url must begin with http:// or https:// and name a host")
    if parts.username is not None or parts.password is not None:
        raise ConfigurationError("url must not hold credentials", hint='headers={"Authorization": "Basic …"}')
    if replays and format != "sse":
        raise ConfigurationError("lines of JSON have no ids: replays=True needs server-sent events")
    if not (value is None or callable(value) or value in ("text", "json")):
        raise ConfigurationError("value must be 'text', 'json' or a function", detail=f"it is {value!r}")
    if idle_seconds is not None:
        check_positive("idle_seconds", idle_seconds, whole=False)
    return HttpStreamSource(
        url,
        format=format,
        headers={"Accept": _ACCEPT[format], "Cache-Control": "no-store", **(headers or {})},
        value=value or ("text" if format == "sse" else "json"),
        replays=replays,
        ends=ends,
        idle_seconds=idle_seconds,
        ca_file=ca_file,
    )


class HttpStreamSource(Source):
    """One split: the response, and those that follow it."""

    eager = True
    bounded = False
    can_tolerate = True

    def __init__(
        self,
        url: str,
        *,
        format: str,  # noqa: A002
        headers: Mapping[str, str],
        value: str | Callable[[Any], Any],
        replays: bool,
        ends: bool,
        idle_seconds: float | None,
        ca_file: str | None,
    ) -> None:
        self.url = url
        self.format = format
        self.headers = headers
        self.value = value
        self.replays = replays
        self.ends = ends
        self.idle_seconds = idle_seconds
        self._ca_file = ca_file
        self.replay = Replay.REPLAYABLE if replays else Replay.NOT_REPLAYABLE

    @property
    def name(self) -> str:
        return f"http_stream({display_name(self.url)})"

    def check(self) -> None:
        self.get(self.headers).close()

    def discover(self, parallelism: int) -> Discovery:
        return Discovery((Split(display_name(self.url), b""),), complete=True)

    def reader(self, split: Split, position: Any, context: ReaderContext) -> SplitReader:
        fetcher = ResponseFetcher(self, tolerant=context.tolerant)
        return FetchingReader(fetcher, position, context, name=f'source "{self.name}"')

    def get(self, headers: Mapping[str, str]) -> StreamedResponse:
        context = ssl.create_default_context(cafile=self._ca_file) if self.url.startswith("https:") else None
        return StreamedResponse(self.url, headers, context=context, idle_seconds=self.idle_seconds)


class ResponseFetcher(Fetcher):
    """Reads one response after the other."""

    def __init__(self, source: HttpStreamSource, *, tolerant: bool = False) -> None:
        self._source = source
        self._decoder = _decoder(source.format, source.value, tolerant=tolerant)
        self._response: StreamedResponse | None = None
        self._framer: Framer = LineFramer()
        self._last_id = ""
        self._number = 1
        #: Cut, but more than was asked for.
        self._waiting: list[Any] = []

    def connect(self, position: Any) -> None:
        """Events that were not handed over come again, if the server replays; otherwise they are still here."""
        if self._source.replays:
            self._last_id = position or ""
            self._waiting = []
        headers = dict(self._source.headers)
        if self._last_id:
            headers["Last-Event-ID"] = self._last_id
        self._response = self._source.get(headers)
        self._framer = EventFramer(self._last_id) if self._source.format == "sse" else LineFramer()

    def fetch(self, limit: int) -> Fetched | None:
        assert self._response is not None
        if not self._waiting:
            if self._response.has_ended or not self._receive(self._response):
                return Fetched(self._position, ends_split=True)
            if not self._waiting:
                return None
        taken, self._waiting = self._waiting[:limit], self._waiting[limit:]
        if self._source.replays:
            self._check_ids(taken)
        decoded = self._decoder.decode(taken, self._place(taken))
        if isinstance(taken[-1], ServerSentEvent):
            self._last_id = taken[-1].id
        self._number += len(taken)
        return Fetched(self._position, decoded.batch, unreadable=decoded.unreadable)

    @property
    def _position(self) -> str | None:
        return self._last_id if self._source.replays else None

    def _receive(self, response: StreamedResponse) -> bool:
        """False: that was all."""
        try:
            data = response.take(FETCH_WAIT_SECONDS)
        except PeerError as error:
            error.pause_seconds = self._framer.retry_seconds
            raise
        if data is None:
            if self._source.ends:
                return False
            ended = PeerError(f"{display_name(self._source.url)} ended its response", hint="it is asked again")
            ended.pause_seconds = self._framer.retry_seconds
            raise ended
        self._waiting = self._framer.feed(data)
        return True

    def _check_ids(self, events: Sequence[ServerSentEvent]) -> None:
        for event in events:
            if not event.has_own_id:
                raise OperationsError(
                    f"{display_name(self._source.url)} sent an event without an id",
                    detail=f"behind {event.id!r}: {event.data[:200]!r}",
                    hint="it couldn't be told from the one before after a failure: leave out replays=True",
                )

    def _place(self, taken: Sequence[Any]) -> Place:
        """By id, where there is one; by number since the reader was opened elsewhere."""
        told, first = display_name(self._source.url), self._number

        def position(index: int) -> object:
            return getattr(taken[index], "id", None) or f"#{first + index}"

        return Place(
            lambda position: f"event {position} of {told}",
            position,
            lambda index: getattr(taken[index], "data", taken[index]),
        )

    def close(self) -> None:
        if self._response is not None:
            self._response.close()
            self._response = None


def _decoder(format_name: str, value: str | Callable[[Any], Any], *, tolerant: bool) -> Decoder:
    """From events, or from lines as bytes."""
    is_line = format_name == "ndjson"
    if callable(value):
        function = value
        one = (lambda line: function(line.decode())) if is_line else function
        return ValueDecoder(one, tolerant=tolerant, function=function)
    if is_line:
        return decoder_of(value, tolerant=tolerant)
    return ValueDecoder(_event_text if value == "text" else _event_json, tolerant=tolerant)


def _event_text(event: ServerSentEvent) -> str:
    return event.data


def _event_json(event: ServerSentEvent) -> Any:
    return msgspec.json.decode(event.data)

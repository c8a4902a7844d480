"""How does one thread talk to RabbitMQ, many messages at a time?

The client's blocking connection waits for every single confirm and dispatches every delivery by itself. So we use its
event loop, which only runs when the thread that owns the link drives it: all callbacks run within `drive`.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from cutwater.connectors.bases.extras import client
from cutwater.connectors.failures import PeerError
from cutwater.errors import ConfigurationError, CutwaterError

log = logging.getLogger("cutwater")

ANSWER_SECONDS = 30.0
CLOSE_SECONDS = 0.5
#: How the client names what the server itself said.
BY_SERVER = "ConnectionClosedByBroker"
_PORTS = {"amqp": 5672, "amqps": 5671}


def check_url(url: str) -> None:
    """Refuses what can't be the address of a RabbitMQ server; never repeats it, because it may hold a password."""
    try:
        fits = urlsplit(url).scheme in _PORTS and bool(urlsplit(url).hostname) and urlsplit(url).port != 0
    except (ValueError, AttributeError, TypeError):
        fits = False
    if not fits:
        raise ConfigurationError(
            "url is not the address of a RabbitMQ server", hint="amqp://user:password@host:5672/%2F, or amqps://…"
        )


def address_of(url: str) -> str:
    """Host and port: what may be shown of a URL."""
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port or _PORTS[parts.scheme]}"


class Link:
    """A connection with one channel. Used by one thread."""

    def __init__(self, url: str) -> None:
        """Connects. `PeerError`: the server is gone, and may come back."""
        pika = client("pika", extra="rabbitmq")
        loops = client("pika.adapters.select_connection", extra="rabbitmq")
        # What it would say, we say in one line; who has configured logging sees it all the same.
        logging.getLogger("pika").addHandler(logging.NullHandler())
        parameters = _parameters(url)
        self._user = parameters.credentials.username
        self._server = f"RabbitMQ at {address_of(url)}"
        self._lost: Exception | None = None
        self.channel: Any = None
        self._is_open = False
        self._loop = loops.IOLoop()
        self._loop.activate_poller()
        self._connection = pika.SelectConnection(
            parameters,
            on_open_callback=self._connected,
            on_open_error_callback=self._closed,
            on_close_callback=self._closed,
            custom_ioloop=self._loop,
        )
        try:
            self.wait(lambda: self._is_open)
        except BaseException:
            self.close()
            raise

    def drive(self, until: Callable[[], bool], seconds: float) -> bool:
        """Sends and receives until the condition holds; False: it didn't within this time."""
        deadline = time.monotonic() + seconds
        while not until():
            self._raise_if_lost()
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                return False
            self._turn(remaining)
        return True

    def turn(self) -> None:
        """Sends and receives what can be at once."""
        self._raise_if_lost()
        self._turn(0)

    def wait(self, until: Callable[[], bool]) -> None:
        """As `drive`, when the server owes an answer."""
        if not self.drive(until, ANSWER_SECONDS):
            raise PeerError(f"{self._server} doesn't answer", detail=f"it was given {ANSWER_SECONDS:.0f} s")

    def ask(self, method: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Calls a method of the channel and waits for the server's answer."""
        answers: list[Any] = []
        try:
            method(*arguments, **options, callback=answers.append)
        except Exception as error:
            raise self.translated(error) from error
        self.wait(lambda: bool(answers))
        return answers[0].method

    def messages_in(self, queue: str) -> int:
        """How many wait there; raises when there is no such queue."""
        count: int = self.ask(self.channel.queue_declare, queue, passive=True).message_count
        return count

    def fail(self, error: CutwaterError) -> None:
        """For callbacks: the next call of this link raises it."""
        self._lost = self._lost or error

    def close(self) -> None:
        try:
            if self._connection.is_open:
                self._connection.close()
                self.drive(lambda: bool(self._connection.is_closed), CLOSE_SECONDS)
        except (CutwaterError, client("pika.exceptions", extra="rabbitmq").AMQPError):
            log.debug("%s was gone before the connection was closed", self._server)
        finally:
            self._loop.deactivate_poller()
            self._loop.close()

    def _turn(self, seconds: float) -> None:
        timer = self._loop.call_later(seconds, _nothing)
        try:
            self._loop.poll()
            self._loop.process_timeouts()
        finally:
            self._loop.remove_timeout(timer)

    def _connected(self, connection: Any) -> None:
        self.channel = connection.channel(on_open_callback=self._opened)
        self.channel.add_on_close_callback(self._closed)
        self.channel.add_on_cancel_callback(lambda _: self._closed(connection, "the queue is gone"))

    def _opened(self, _: Any) -> None:
        self._is_open = True

    def _closed(self, _: Any, reason: Any) -> None:
        self.fail(self.translated(reason))

    def _raise_if_lost(self) -> None:
        if self._lost is not None:
            raise self._lost

    def translated(self, reason: Any) -> CutwaterError:
        """What the client or the server said, in our words."""
        return translated(reason, server=self._server, user=self._user)


class Message(NamedTuple):
    """A delivery, in the order in which it came."""

    method: Any
    properties: Any
    body: bytes


class Consumer:
    """A link that receives the messages of one queue or stream."""

    def __init__(
        self, url: str, queue: str, *, prefetch: int, arguments: dict[str, Any] | None = None, alone: bool = False
    ) -> None:
        """`prefetch`: how many the server sends before the first of them is acknowledged.

        `alone`: as the only consumer; `PeerError` while there is another.
        """
        self.link = Link(url)
        self._queue = queue
        self._arrived: deque[Message] = deque()
        try:
            self.link.ask(self.link.channel.basic_qos, prefetch_count=prefetch)
            consume = self.link.channel.basic_consume
            self.link.ask(consume, queue, self._take_in, arguments=arguments, exclusive=alone)
        except BaseException:
            self.link.close()
            raise

    def take(self, limit: int, *, wait_seconds: float) -> list[Message]:
        """What has arrived; none when nothing did within this time."""
        self.link.drive(lambda: bool(self._arrived), wait_seconds)
        before = 0
        while before < len(self._arrived) < limit:  # more may be on its way already
            before = len(self._arrived)
            self.link.turn()
        return [self._arrived.popleft() for _ in range(min(limit, len(self._arrived)))]

    def acknowledge(self, tag: int) -> None:
        """All messages up to this one."""
        self.link.channel.basic_ack(tag, multiple=True)
        self.link.turn()

    def waiting(self) -> int:
        """How many the server has not sent yet. Its answer also says that it has seen the acknowledgements before."""
        return self.link.messages_in(self._queue)

    def close(self) -> None:
        self.link.close()

    def _take_in(self, _: Any, method: Any, properties: Any, body: bytes) -> None:
        self._arrived.append(Message(method, properties, body))


def _parameters(url: str) -> Any:
    try:
        return client("pika", extra="rabbitmq").URLParameters(url)
    except (ValueError, TypeError) as error:
        raise ConfigurationError("an option in the url of RabbitMQ is wrong", detail=str(error)) from error


def translated(reason: Any, *, server: str, user: str) -> CutwaterError:
    """An error of the client, in our words: wrong settings, or a server that may come back."""
    errors = client("pika.exceptions", extra="rabbitmq")
    cause = _first_cause(reason)
    code = getattr(cause, "reply_code", None)
    text = getattr(cause, "reply_text", "") or str(cause) or type(cause).__name__
    if code == 403 and "exclusive" in text:
        return PeerError(f"{server} has another consumer of the queue", detail=text)
    # The client only guesses from when it was cut off; a server that refuses says so, one that dies doesn't.
    refused = BY_SERVER in text
    if (isinstance(cause, errors.ProbableAuthenticationError) and refused) or code == 403:
        return ConfigurationError(
            f'{server} refuses user "{user}"', detail=text, hint="correct the url, or what the user may"
        )
    if (isinstance(cause, errors.ProbableAccessDeniedError) and refused) or code == 530:
        return ConfigurationError(
            f"{server} refuses its virtual host", detail=text, hint="it is the path of the url, %2F for /"
        )
    if code == 404 and " - no " in text:
        return ConfigurationError(
            f"{server} has {text.partition(' - ')[2]}", hint="correct the name, or declare it first"
        )
    if code in (405, 406, 540):
        return ConfigurationError(f"{server} refuses", detail=text)
    return PeerError(f"{server} can't be reached, or went away", detail=text)


def _first_cause(reason: Any) -> Any:
    """The client wraps what happened in the steps that it took."""
    while True:
        nested = getattr(reason, "exceptions", None) or [
            inner
            for inner in (getattr(reason, "exception", None), *getattr(reason, "args", ()))
            if isinstance(inner, BaseException)
        ]
        if not nested:
            return reason
        reason = nested[-1]


def _nothing() -> None:
    pass

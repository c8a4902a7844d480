"""How is a NATS server reached from a thread that blocks?

nats-py lives on an event loop. A session has one of its own, which turns only while something is asked of it. It never
reconnects by itself: its user does, and knows where to go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

from cutwater.connectors.bases.extras import client
from cutwater.connectors.failures import PeerError
from cutwater.errors import ConfigurationError, CutwaterError, OperationsError

CONNECT_TIMEOUT_SECONDS = 5
#: A server that hangs for longer is taken for gone.
ANSWER_TIMEOUT_SECONDS = 10.0
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Servers:
    """Where the servers of a cluster are, and how to log in."""

    urls: tuple[str, ...] = field(repr=False)
    #: Of nats.connect: user and password, token, credentials, TLS.
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, servers: str | Sequence[str], options: Mapping[str, Any] | None) -> Servers:
        urls = (servers,) if isinstance(servers, str) else tuple(servers)
        if not urls or not all(isinstance(url, str) and urlsplit(url).hostname for url in urls):
            raise ConfigurationError("servers must be URLs", hint='"nats://host:4222", "tls://…", or several of them')
        return cls(urls, dict(options or {}))

    def __str__(self) -> str:
        """Without user names, passwords and tokens."""
        parts = [urlsplit(url) for url in self.urls]
        return ", ".join(f"{part.hostname}:{part.port or 4222}" for part in parts)


def with_session(servers: Servers, work: Callable[[Session], Coroutine[Any, Any, T]]) -> T:
    """Connects, does it, and closes. On a thread of its own: that of a notebook has an event loop already."""

    def run() -> T:
        with Session(servers) as session:
            return session.run(work(session))

    with ThreadPoolExecutor(1, thread_name_prefix="cutwater-nats") as thread:
        return thread.submit(run).result()


class Session:
    """A connection. Used by one thread, without an event loop."""

    def __init__(self, servers: Servers) -> None:
        self._servers = servers
        self._nats = client("nats", extra="nats")
        self._runner = asyncio.Runner()
        self._closed: asyncio.Future[None] | None = None
        self._last_error: Exception | None = None
        self.connection: Any = None
        self.jetstream: Any = None
        try:
            self.run(self._connect())
        except BaseException:
            self.close()
            raise

    async def _connect(self) -> None:
        closed = self._closed = asyncio.get_running_loop().create_future()

        async def connection_closed() -> None:
            if not closed.done():
                closed.set_result(None)

        async def remember(error: Exception) -> None:
            """For details: when all servers are gone, the client doesn't say why. It would log it otherwise."""
            self._last_error = error

        options = {"connect_timeout": CONNECT_TIMEOUT_SECONDS, **self._servers.options}
        self.connection = await self._nats.connect(
            list(self._servers.urls),
            allow_reconnect=False,
            # Each server is tried once more; then it is our turn.
            max_reconnect_attempts=1,
            reconnect_time_wait=0,
            error_cb=remember,
            closed_cb=connection_closed,
            **options,
        )
        self.jetstream = self.connection.jetstream(timeout=ANSWER_TIMEOUT_SECONDS)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Does it; what the client raises meanwhile comes in our words."""
        with self._telling():
            return self._runner.run(work)

    async def answered(self, promise: asyncio.Future[T]) -> T:
        """Waits for something that the server must do soon."""
        assert self._closed is not None
        waited: set[asyncio.Future[Any]] = {promise, self._closed}
        await asyncio.wait(waited, timeout=ANSWER_TIMEOUT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if not promise.done():
            raise self.gone("the connection was closed" if self._closed.done() else "there is no answer")
        return promise.result()

    @property
    def is_connected(self) -> bool:
        return self.connection is not None and bool(self.connection.is_connected)

    def gone(self, detail: str) -> PeerError:
        return PeerError(
            f"NATS at {self._servers} can't be reached", detail=detail, hint="is the server up, and the address right?"
        )

    @contextmanager
    def _telling(self) -> Iterator[None]:
        errors, stream_errors = self._nats.errors, self._nats.js.errors
        try:
            yield
        except CutwaterError:
            raise
        except (stream_errors.ServiceUnavailableError, stream_errors.ServerError) as error:
            raise PeerError(f"JetStream of NATS at {self._servers} can't answer just now", detail=str(error)) from error
        except stream_errors.APIError as error:
            raise OperationsError(f"NATS at {self._servers} refused", detail=str(error)) from error
        except (TimeoutError, errors.Error, OSError) as error:
            if "authorization" in str(error).lower() or "permissions" in str(error).lower():
                raise ConfigurationError(
                    f"NATS at {self._servers} refuses the credentials",
                    detail=str(error),
                    hint='give them in options, e.g. {"user": …, "password": …} or {"user_credentials": "file.creds"}',
                ) from error
            cause = self._last_error if isinstance(error, errors.NoServersError) else error
            raise self.gone(f"{type(cause).__name__}: {cause}") from error

    def close(self) -> None:
        try:
            if self.connection is not None:
                self._runner.run(asyncio.wait_for(self.connection.close(), 1.0))
        except Exception:  # it is gone already
            pass
        finally:
            self._runner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


async def stream_named(session: Session, stream: str, servers: Servers) -> Any:
    """What the server tells of it; a clear error when it isn't there."""
    errors = client("nats.js.errors", extra="nats")
    try:
        return await session.jetstream.stream_info(stream)
    except errors.NotFoundError as error:
        raise OperationsError(
            f'there is no stream "{stream}" in NATS at {servers}', detail=str(error), hint=f"nats stream add {stream}"
        ) from error

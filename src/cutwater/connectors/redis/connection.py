"""How is a Redis server reached, and what do its refusals mean?

An address holds a password, so it is shown to nobody: messages name host and port. What may pass (the server restarts,
loads its data, is a replica for a moment) becomes a `PeerError`; all else fails at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from cutwater.connectors.bases.extras import client
from cutwater.connectors.failures import PeerError
from cutwater.errors import ConfigurationError, OperationsError

SCHEMES = ("redis", "rediss", "unix")
CONNECT_TIMEOUT_SECONDS = 5.0
#: A server that hangs for longer is taken for gone.
ANSWER_TIMEOUT_SECONDS = 15.0
#: XINFO STREAM tells how many entries were ever added, which makes trimmed ones noticeable.
VERSION_MIN = (7, 0)


@dataclass(frozen=True, slots=True)
class Address:
    """Where the server is, and how to log in."""

    url: str = field(repr=False)
    #: Of redis.Redis: TLS files, user name and password, timeouts.
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.url, str) or urlsplit(self.url).scheme not in SCHEMES:
            raise ConfigurationError(
                "a Redis URL begins with redis://, rediss:// (TLS) or unix://", hint="redis://user:password@host:6379/0"
            )

    def __str__(self) -> str:
        parts = urlsplit(self.url)
        return parts.path if parts.scheme == "unix" else f"{parts.hostname or 'localhost'}:{parts.port or 6379}"

    def connect(self) -> Any:
        """A client, which connects when it is first used. It doesn't retry: its user does, and knows what to repeat."""
        redis = client("redis", extra="redis")
        no_retry = redis.retry.Retry(redis.backoff.NoBackoff(), 0)
        options = {
            "socket_connect_timeout": CONNECT_TIMEOUT_SECONDS,
            "socket_timeout": ANSWER_TIMEOUT_SECONDS,
            "retry": no_retry,
            **self.options,
        }
        try:
            return redis.Redis.from_url(self.url, **options)
        except (ValueError, TypeError) as error:
            raise ConfigurationError(f"Redis at {self} can't be used with these options", detail=str(error)) from error

    @contextmanager
    def telling(self) -> Iterator[None]:
        """What the client raises inside, in our words."""
        redis = client("redis", extra="redis")
        errors = redis.exceptions
        try:
            yield
        except (errors.AuthenticationError, errors.NoPermissionError) as error:
            raise ConfigurationError(
                f"Redis at {self} refuses the credentials",
                detail=str(error),
                hint="give them in the URL, or as username= and password= in options",
            ) from error
        except (errors.ConnectionError, errors.TimeoutError, errors.ReadOnlyError, OSError) as error:
            raise PeerError(
                f"Redis at {self} can't be reached", detail=str(error), hint="is the server up, and the address right?"
            ) from error
        except errors.ResponseError as error:
            if str(error).startswith(("OOM", "CLUSTERDOWN", "MASTERDOWN", "TRYAGAIN", "LOADING", "BUSY ")):
                raise PeerError(f"Redis at {self} can't answer just now", detail=str(error)) from error
            raise OperationsError(f"Redis at {self} refused", detail=str(error)) from error

    def check(self) -> None:
        """Raises a clear error when the server can't be used. May block."""
        with self.telling(), self.connect() as connection:
            version = connection.info("server")["redis_version"]
        if tuple(int(part) for part in version.split(".")[:2]) < VERSION_MIN:
            raise OperationsError(
                f"Redis at {self} is too old",
                detail=f"version {version}; {'.'.join(map(str, VERSION_MIN))} is needed",
            )

"""How is Kinesis reached, and what do its refusals mean?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from cutwater.connectors.bases.extras import client
from cutwater.connectors.failures import PeerError
from cutwater.connectors.settings import check_name
from cutwater.errors import ConfigurationError

_THROTTLING = frozenset({"ProvisionedThroughputExceededException", "LimitExceededException", "ThrottlingException"})
_REFUSED = frozenset({
    "AccessDeniedException", "ExpiredTokenException", "IncompleteSignature", "InvalidClientTokenId",
    "InvalidSignatureException", "MissingAuthenticationTokenException", "UnrecognizedClientException",
})  # fmt: skip
_OWN_RETRIES = {"mode": "standard", "max_attempts": 3}
CONNECT_TIMEOUT_SECONDS = 5
ANSWER_TIMEOUT_SECONDS = 30
CONNECTIONS_MAX = 50


class Throttled(PeerError):
    """More was asked of a shard than it gives in a second."""


class IteratorExpired(PeerError):
    """An iterator is good for five minutes."""


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream, and where it is. Credentials are never shown."""

    name: str
    endpoint: str | None = None
    region: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        check_name("stream", self.name)

    def connect(self) -> Any:
        """A client, good for all threads of a task; it connects when it is used."""
        boto3 = client("boto3", extra="kinesis")
        config = client("botocore.config", extra="kinesis").Config(
            retries=_OWN_RETRIES,
            connect_timeout=CONNECT_TIMEOUT_SECONDS,
            read_timeout=ANSWER_TIMEOUT_SECONDS,
            max_pool_connections=CONNECTIONS_MAX,
        )
        with self.telling():
            # A session of its own: the default one is not for several threads.
            session = boto3.session.Session()
            options = {"endpoint_url": self.endpoint, "region_name": self.region, "config": config, **self.options}
            return session.client("kinesis", **options)

    def check(self) -> None:
        """Raises a clear error when there is no such stream. May block."""
        with self.telling():
            self.connect().describe_stream_summary(StreamName=self.name)

    @contextmanager
    def telling(self) -> Iterator[None]:
        """What the client raises inside, in our words."""
        errors = client("botocore.exceptions", extra="kinesis")
        try:
            yield
        except errors.ClientError as error:
            raise self._translated(error.response) from error
        except (errors.NoCredentialsError, errors.PartialCredentialsError, errors.NoRegionError) as error:
            raise ConfigurationError(
                f"Kinesis {self._place} can't be used without region and credentials",
                detail=str(error),
                hint="region=…, and credentials from the environment, a profile, or options={…}",
            ) from error
        except (errors.HTTPClientError, errors.ConnectionError, OSError) as error:
            raise PeerError(f"Kinesis {self._place} can't be reached", detail=str(error)) from error
        except (errors.BotoCoreError, ValueError, TypeError) as error:
            raise ConfigurationError(f"Kinesis {self._place} can't be used so", detail=str(error)) from error

    @property
    def _place(self) -> str:
        return f"at {self.endpoint}" if self.endpoint else f"in {self.region}" if self.region else "of this account"

    def _translated(self, response: Mapping[str, Any]) -> Exception:
        code = response.get("Error", {}).get("Code", "")
        text = response.get("Error", {}).get("Message", "") or code
        if code in _THROTTLING:
            return Throttled(f'stream "{self.name}" is asked for more than it gives', detail=text)
        if code == "ExpiredIteratorException":
            return IteratorExpired(f'an iterator of stream "{self.name}" expired', detail=text)
        if code == "ResourceNotFoundException":
            return ConfigurationError(
                f'Kinesis {self._place} has no stream "{self.name}"', detail=text, hint="correct the name, or create it"
            )
        if code in _REFUSED:
            return ConfigurationError(f"Kinesis {self._place} refuses the credentials", detail=f"{code}: {text}")
        if response.get("ResponseMetadata", {}).get("HTTPStatusCode", 500) >= 500:
            return PeerError(f"Kinesis {self._place} can't answer just now", detail=f"{code}: {text}")
        return ConfigurationError(f"Kinesis {self._place} refuses", detail=f"{code}: {text}")

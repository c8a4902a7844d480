"""How do we talk to Elasticsearch, and what do its refusals mean?

One kind of request is all that the sink needs, so the standard library's HTTP does, without a client to install.
"""

from __future__ import annotations

import http.client
import json
import ssl
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlencode, urlsplit

from cutwater.connectors.failures import PeerError
from cutwater.errors import ConfigurationError, OperationsError

CONNECT_TIMEOUT_SECONDS = 10.0
ANSWER_TIMEOUT_SECONDS = 60.0
REQUEST_BYTES_MAX = 5 << 20
_PORTS = {"http": 9200, "https": 443}
_NOT_NOW = (429, 500, 502, 503, 504)


class TooLarge(Exception):
    """The request has more bytes than the server, or a proxy in front of it, takes."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where it is, and who we are. What is secret is never shown."""

    urls: tuple[str, ...] = field(repr=False)
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    api_key: str | None = field(default=None, repr=False)
    #: Files, which every slot must have.
    ca_file: str | None = None
    certificate: tuple[str, str] | None = None
    #: Of every bulk request.
    parameters: Mapping[str, str] = field(default_factory=dict)

    def check(self) -> None:
        """Raises a clear error when it can't be reached, doesn't know us, or is something else."""
        connection = Connection(self)
        try:
            answer = connection.ask("GET", "/")
        finally:
            connection.close()
        if "version" not in answer:
            raise _something_else(connection.title, json.dumps(answer))

    def headers(self, url: str) -> dict[str, str]:
        parts = urlsplit(url)
        if self.api_key is not None:
            return {"Authorization": f"ApiKey {self.api_key}"}
        user, password = self.user, self.password
        if user is None and parts.username is not None:
            user, password = unquote(parts.username), unquote(parts.password or "")
        if user is None:
            return {}
        return {"Authorization": "Basic " + b64encode(f"{user}:{password or ''}".encode()).decode()}

    def tls(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
            if self.certificate is not None:
                context.load_cert_chain(*self.certificate)
        except OSError as error:  # also of a file that is no certificate
            files = ", ".join((*filter(None, [self.ca_file]), *(self.certificate or ())))
            raise ConfigurationError(f"certificates can't be read: {files}", detail=str(error)) from error
        return context


class Connection:
    """A connection to one of the nodes, kept open. Used by one thread."""

    def __init__(self, cluster: Cluster, turn: int = 0) -> None:
        """`turn`: which of the nodes, round and round."""
        url = cluster.urls[turn % len(cluster.urls)]
        parts = urlsplit(url)
        port = parts.port or _PORTS[parts.scheme]
        assert parts.hostname is not None, "a checked address"
        self.title = f"{parts.hostname}:{port}"
        #: A larger document goes alone.
        self.request_bytes_max = REQUEST_BYTES_MAX
        self._prefix = parts.path.rstrip("/")
        self._headers = cluster.headers(url)
        self._bulk = f"/_bulk?{urlencode({**cluster.parameters, 'filter_path': 'items.*.status,items.*.error'})}"
        if parts.scheme == "https":
            self._http: http.client.HTTPConnection = http.client.HTTPSConnection(
                parts.hostname, port, timeout=CONNECT_TIMEOUT_SECONDS, context=cluster.tls()
            )
        else:
            self._http = http.client.HTTPConnection(parts.hostname, port, timeout=CONNECT_TIMEOUT_SECONDS)

    def bulk(self, body: bytes) -> list[Any]:
        """What became of each operation. `TooLarge`, or raises like `ask`."""
        answer = self.ask("POST", self._bulk, body)
        items = answer.get("items")
        if not isinstance(items, list):
            raise _something_else(self.title, json.dumps(answer))
        return items

    def ask(self, method: str, path: str, body: bytes | None = None) -> dict[str, Any]:
        """`PeerError`: it is gone, or overloaded. Any other exception is final."""
        headers = {**self._headers, "Content-Type": "application/x-ndjson"} if body is not None else self._headers
        try:
            if not self._is_open():
                self._http.connect()
                self._http.sock.settimeout(ANSWER_TIMEOUT_SECONDS)
            self._http.request(method, self._prefix + path, body, headers)
            response = self._http.getresponse()
            data = response.read()
        except ssl.SSLCertVerificationError as error:
            raise ConfigurationError(
                f"the certificate of Elasticsearch at {self.title} can't be verified",
                detail=str(error),
                hint="ca_file= names the file with the certificate of its authority",
            ) from error
        except (OSError, http.client.HTTPException) as error:
            self.close()
            reason = str(error) or type(error).__name__
            raise PeerError(f"Elasticsearch at {self.title} can't be reached", detail=reason) from error
        if response.status != http.client.OK:
            raise self._refusal(response, data)
        return _object(self.title, data)

    def close(self) -> None:
        self._http.close()

    def _is_open(self) -> bool:
        return self._http.sock is not None

    def _refusal(self, response: http.client.HTTPResponse, data: bytes) -> Exception:
        detail = f"{response.status} {response.reason}: {data[:500].decode(errors='replace')}"
        match response.status:
            case 401 | 403:
                hint = "check user and password, or the API key, and what they are allowed to do"
                return ConfigurationError(f"Elasticsearch at {self.title} refuses access", detail=detail, hint=hint)
            case 413:
                return TooLarge(detail)
            case status if status in _NOT_NOW:
                error = PeerError(f"Elasticsearch at {self.title} can't answer now", detail=detail)
                pause = response.getheader("Retry-After") or ""
                error.pause_seconds = float(pause) if pause.isdecimal() else 0.0
                return error
        return OperationsError(f"Elasticsearch at {self.title} refuses a request", detail=detail)


def _object(title: str, data: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(data)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise _something_else(title, data[:500].decode(errors="replace"))
    return answer


def _something_else(title: str, answer: str) -> OperationsError:
    return OperationsError(f"what answers at {title} is not Elasticsearch", detail=answer[:500])

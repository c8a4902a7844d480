"""How is a schema registry asked?

Over HTTP, as Confluent's registry and those that speak like it understand it. The few calls that are needed are made
with the standard library: clients of the registry bring a dozen packages.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import quote, urlsplit

from cutwater.connectors.bases.patience import Patience
from cutwater.connectors.failures import PeerError
from cutwater.durations import Duration, parse_duration
from cutwater.errors import ConfigurationError, CutwaterError, OperationsError

SchemaKind = Literal["AVRO", "PROTOBUF"]
_CONTENT = "application/vnd.schemaregistry.v1+json"
#: Subject, version or schema are not there, or deleted. A 404 without one of them is not a registry's.
_MISSING_CODES = range(40401, 40500)


@dataclass(frozen=True, slots=True)
class Registry:
    """Where a registry is, and who asks."""

    url: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    ca_file: str | None = None
    timeout_seconds: float = 10.0

    def __str__(self) -> str:
        return self.url


def registry(
    url: str,
    *,
    user: str | None = None,
    password: str | None = None,
    token: str | None = None,
    ca_file: str | None = None,
    timeout: Duration = "10s",
) -> Registry:
    """A schema registry that understands Confluent's calls, at `http://…` or `https://…`.

    `user` and `password`: basic authentication; `token`: a bearer token instead. `ca_file`: certificates of the
    authorities to trust; left out, those of the machine. `timeout`: for one answer. While a job runs, a registry
    that is gone is asked again for a minute and a half.
    """
    parts = urlsplit(url) if isinstance(url, str) else None
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigurationError("a registry's url begins with http:// or https:// and names a host")
    if parts.username is not None or parts.password is not None:
        raise ConfigurationError("url must not hold credentials", hint="registry(url, user=…, password=…)")
    if (user is None) != (password is None) or (user is not None and token is not None):
        raise ConfigurationError("a registry takes user and password, or a token", hint="give one of the two")
    seconds = parse_duration(timeout, option="timeout")
    return Registry(url.rstrip("/"), user, password, token, ca_file, seconds)


def registry_of(given: str | Registry | None) -> Registry | None:
    """An address stands for a registry without further settings."""
    return registry(given) if isinstance(given, str) else given


@dataclass(frozen=True, slots=True)
class Reference:
    """Another schema that a schema uses, and the name it has there."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema as the registry has it."""

    text: str
    kind: str
    references: tuple[Reference, ...]
    #: None: it was asked for by its id.
    id: int | None = None
    version: int | None = None


class UnknownSchemaError(ValueError):
    """A message names a schema that the registry doesn't have."""


class RegistryClient:
    """Used by one thread. Every call may block."""

    def __init__(self, registry: Registry, *, patient: bool) -> None:
        """`patient`: a job runs. A registry that is gone is asked again for a while, and if it refuses, those who run
        the job must act: no message is to blame. Otherwise both are errors at once, of the job's settings.
        """
        self._registry = registry
        self._patient = patient
        self._tls = ssl.create_default_context(cafile=registry.ca_file) if registry.url.startswith("https:") else None

    def ping(self) -> None:
        """Raises when it doesn't answer, or not to us."""
        self._call("GET", "/schemas/types")

    def by_id(self, schema_id: int) -> RegisteredSchema:
        found = self._call("GET", f"/schemas/ids/{schema_id}")
        if found is None:
            raise UnknownSchemaError(f"the schema registry at {self._registry} has no schema {schema_id}")
        return _registered(found)

    def version(self, subject: str, version: int | Literal["latest"] = "latest") -> RegisteredSchema:
        found = self._call("GET", f"/subjects/{quote(subject, safe='')}/versions/{version}")
        if found is None:
            raise ConfigurationError(
                f'the schema registry at {self._registry} has no subject "{subject}"',
                detail=f"asked for its version {version}",
                hint="give schema=…, or subject=… if it has another name",
            )
        return _registered(found)

    def register(
        self, subject: str, text: str, kind: SchemaKind, references: Sequence[Reference], *, adds: bool
    ) -> int:
        """The id. `adds`: if the schema isn't there yet, it is added, which the subject's rules may forbid."""
        body: dict[str, Any] = {"schema": text}
        if kind != "AVRO":
            body["schemaType"] = kind
        if references:
            body["references"] = [
                {"name": each.name, "subject": each.subject, "version": each.version} for each in references
            ]
        path = f"/subjects/{quote(subject, safe='')}"
        found = self._call("POST", f"{path}/versions" if adds else path, body)
        if found is None and not adds:
            # To registries that compare texts, one with other blanks is another schema, unless they are told not to.
            found = self._call("POST", f"{path}?normalize=true", body)
        if found is None:
            raise ConfigurationError(
                f'subject "{subject}" of the schema registry at {self._registry} does not have this schema',
                hint="register it first, or leave out register=False",
            )
        return int(found["id"])

    def registered_version(self, subject: str, text: str, kind: SchemaKind, references: Sequence[Reference]) -> int:
        """The number that a schema, once registered, has within its subject."""
        body = {
            "schema": text,
            "schemaType": kind,
            "references": [
                {"name": each.name, "subject": each.subject, "version": each.version} for each in references
            ],
        }
        found = self._call("POST", f"/subjects/{quote(subject, safe='')}", body)
        assert found is not None, "it was registered before"
        return int(found["version"])

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        """The answer; None: there is no such thing."""
        if not self._patient:
            return self._call_once(method, path, body)
        patience = Patience(f"the schema registry at {self._registry}", now_seconds=time.monotonic)
        while True:
            try:
                return self._call_once(method, path, body)
            except PeerError as error:
                time.sleep(patience.failed(error))

    def _call_once(self, method: str, path: str, body: Any) -> Any:
        try:
            status, data = self._ask(method, path, None if body is None else json.dumps(body).encode())
            if status in (200, 201):
                return json.loads(data)
        except ssl.SSLCertVerificationError as error:
            raise self._refused(
                "shows a certificate that can't be verified", detail=str(error), hint="registry(…, ca_file=…)"
            ) from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise self._gone(f"{type(error).__name__}: {error}") from error
        code, told = _error_of(data)
        if status == 404 and code in _MISSING_CODES:
            return None
        raise self._refusal(status, f"{status} {told}".strip())

    def _ask(self, method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        parts = urlsplit(self._registry.url)
        host, timeout = parts.hostname or "", self._registry.timeout_seconds
        connection: http.client.HTTPConnection
        if self._tls is not None:
            connection = http.client.HTTPSConnection(host, parts.port, timeout=timeout, context=self._tls)
        else:
            connection = http.client.HTTPConnection(host, parts.port, timeout=timeout)
        try:
            connection.request(method, parts.path + path, body, self._headers())
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def _headers(self) -> dict[str, str]:
        headers = {"Accept": f"{_CONTENT}, application/json", "Content-Type": _CONTENT}
        if self._registry.user is not None:
            pair = f"{self._registry.user}:{self._registry.password}".encode()
            headers["Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
        elif self._registry.token is not None:
            headers["Authorization"] = f"Bearer {self._registry.token}"
        return headers

    def _gone(self, why: str) -> PeerError:
        return PeerError(f"the schema registry at {self._registry} does not answer", detail=why)

    def _refused(self, fact: str, *, detail: str, hint: str = "") -> CutwaterError:
        kind = OperationsError if self._patient else ConfigurationError
        return kind(f"the schema registry at {self._registry} {fact}", detail=detail, hint=hint)

    def _refusal(self, status: int, told: str) -> CutwaterError:
        match status:
            case 401 | 403:
                return self._refused("refuses this user", detail=told, hint="registry(…, user=…, password=…)")
            case 404:
                return self._refused(
                    "does not know this call",
                    detail=told,
                    hint="does the url have a path? Apicurio's ends with /apis/ccompat/v7",
                )
            case 409:
                return self._refused(
                    "refuses the schema: it is incompatible",
                    detail=told,
                    hint="change the schema so that old readers or writers can go on, or the subject's compatibility",
                )
            case 429:
                return self._gone(told)
            case _ if status >= 500:
                return self._gone(told)
            case _:
                return self._refused("refuses the call", detail=told)


def _error_of(data: bytes) -> tuple[int | None, str]:
    """Its code and message. What stands between us and the registry may answer with a page for people instead."""
    try:
        answer = json.loads(data)
    except ValueError:
        return None, ""
    return (answer.get("error_code"), answer.get("message", "")) if isinstance(answer, dict) else (None, "")


def _registered(found: Any) -> RegisteredSchema:
    references = found.get("references") or ()
    return RegisteredSchema(
        found["schema"],
        found.get("schemaType") or "AVRO",
        tuple(Reference(each["name"], each["subject"], each["version"]) for each in references),
        found.get("id"),
        found.get("version"),
    )

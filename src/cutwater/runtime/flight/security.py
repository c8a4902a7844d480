"""Who may call, and over which kind of connection?

Every call carries a bearer token in its headers; a server looks at it before anything else. With TLS files all
servers and clients speak TLS and ask each other for certificates of the same authority.
"""

from __future__ import annotations

import contextlib
import hmac
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.flight as flight

from cutwater.config import TlsFiles
from cutwater.errors import ConfigurationError

AUTHORIZATION = "authorization"
CONNECT_TIMEOUT_MS = 3_000


def server_arguments(host: str, tls: TlsFiles | None) -> dict[str, Any]:
    """What `FlightServerBase` is made with, to listen on a free port of the host."""
    if tls is None:
        return {"location": f"grpc://{_bracketed(host)}:0"}
    return {
        "location": f"grpc+tls://{_bracketed(host)}:0",
        "tls_certificates": [(_read(tls.certificate), _read(tls.key))],
        "verify_client": True,
        "root_certificates": _read(tls.ca),
    }


def connect(address: str, tls: TlsFiles | None) -> flight.FlightClient:
    """A client of "host:port". Does not block: the connection is made by the first call."""
    options = [("grpc.min_reconnect_backoff_ms", CONNECT_TIMEOUT_MS), ("grpc.enable_retries", 0)]
    if tls is None:
        return flight.FlightClient(f"grpc://{address}", generic_options=options)
    return flight.FlightClient(
        f"grpc+tls://{address}",
        tls_root_certs=_read(tls.ca),
        cert_chain=_read(tls.certificate),
        private_key=_read(tls.key),
        generic_options=options,
    )


def end_call(writer: Any, reader: Any) -> None:
    """Ends a DoExchange call from the client's side, whatever state it is in."""
    reader.cancel()
    # Left to the garbage collector, the writer would complain on stderr about the call we cancelled.
    with contextlib.suppress(Exception):
        writer.close()


def address_of(host: str, port: int) -> str:
    return f"{_bracketed(host)}:{port}"


def call_options(token: str, headers: Sequence[tuple[str, str]] = ()) -> flight.FlightCallOptions:
    """The options of a call that says who calls."""
    everything = [(AUTHORIZATION, f"Bearer {token}"), *headers]
    return flight.FlightCallOptions(headers=[(name.encode(), value.encode()) for name, value in everything])


def first_header(headers: Mapping[str, Sequence[str | bytes]], name: str) -> str:
    """The header's first value, or the empty string."""
    for key, values in headers.items():
        if key.lower() == name and values:
            value = values[0]
            return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    return ""


def require_token(headers: Mapping[str, Sequence[str | bytes]], token: str) -> None:
    """Raises unless the caller shows this token; takes the same time whatever is wrong."""
    shown = first_header(headers, AUTHORIZATION)
    if not hmac.compare_digest(shown.encode(), f"Bearer {token}".encode()):
        raise flight.FlightUnauthenticatedError("the token is wrong")


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigurationError(
            f'the TLS file "{path}" can\'t be read',
            detail=str(error),
            hint="certificate, key and authority must be at the same paths on the driver and on every executor",
        ) from error

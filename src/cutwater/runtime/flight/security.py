"""Who may call, and over which kind of connection?

Every call carries a bearer token in its headers; a server looks at it before anything else. With credentials all
servers and clients speak TLS and ask each other for certificates of the same authority.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow.flight as flight

from cutwater.runtime.flight.credentials import Credentials

AUTHORIZATION = "authorization"
CONNECT_TIMEOUT_MS = 3_000
HEADER_CHARACTERS_MAX = 256


def server_arguments(host: str, tls: Credentials | None) -> dict[str, Any]:
    """What `FlightServerBase` is made with, to listen on a free port of the host."""
    if tls is None:
        return {"location": f"grpc://{_bracketed(host)}:0"}
    return {
        "location": f"grpc+tls://{_bracketed(host)}:0",
        "tls_certificates": [(tls.certificate, tls.key)],
        "verify_client": True,
        "root_certificates": tls.authority,
    }


def connect(address: str, tls: Credentials | None) -> flight.FlightClient:
    """A client of "host:port". Does not block: the connection is made by the first call."""
    options = [("grpc.min_reconnect_backoff_ms", CONNECT_TIMEOUT_MS), ("grpc.enable_retries", 0)]
    if tls is None:
        return flight.FlightClient(f"grpc://{address}", generic_options=options)
    return flight.FlightClient(
        f"grpc+tls://{address}",
        tls_root_certs=tls.authority,
        cert_chain=tls.certificate,
        private_key=tls.key,
        override_hostname=tls.server_name or None,
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
    everything = [(AUTHORIZATION, bearer(token)), *headers]
    return flight.FlightCallOptions(headers=[(name.encode(), value.encode()) for name, value in everything])


def first_header(headers: Mapping[str, Sequence[str | bytes]], name: str) -> str:
    """The header's first value, or the empty string; also for one that is longer than ours ever are."""
    for key, values in headers.items():
        if key.lower() == name and values:
            value = values[0]
            text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
            return text if len(text) <= HEADER_CHARACTERS_MAX else ""
    return ""


def require_token(headers: Mapping[str, Sequence[str | bytes]], token: str, name: str = AUTHORIZATION) -> None:
    """Raises unless the caller shows this token; takes the same time whatever is wrong."""
    shown = first_header(headers, name)
    if not hmac.compare_digest(shown.encode("utf-8", "replace"), bearer(token).encode()):
        raise refusal()


def refusal() -> flight.FlightUnauthenticatedError:
    """One line for every stranger, which tells nothing of what exists here."""
    return flight.FlightUnauthenticatedError("not allowed")


def derived_token(token: str, purpose: str) -> str:
    """A token for another purpose, which doesn't give this one away."""
    return hmac.new(token.encode(), purpose.encode(), hashlib.sha256).hexdigest()


def bearer(token: str) -> str:
    """How a header shows a token."""
    return f"Bearer {token}"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host

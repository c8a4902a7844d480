"""What does a reader or writer make of a registry's answers, and of those that are not the registry's?"""

from __future__ import annotations

from typing import Any

import pytest

from cutwater.connectors.failures import PeerError
from cutwater.connectors.formats.registry import RegistryClient, UnknownSchemaError, registry
from cutwater.errors import ConfigurationError, OperationsError

PAGE = b"<html>nginx</html>"


def client(monkeypatch: Any, status: int, body: bytes, *, patient: bool = False) -> RegistryClient:
    monkeypatch.setattr(RegistryClient, "_ask", lambda *_: (status, body))
    return RegistryClient(registry("http://registry:8081"), patient=patient)


@pytest.mark.parametrize(
    ("status", "body", "error", "fact"),
    [
        (404, b'{"error_code": 40403, "message": "Schema not found"}', UnknownSchemaError, "has no schema 7"),
        (404, b'{"error_code": 404, "message": "HTTP 404 Not Found"}', ConfigurationError, "does not know this call"),
        (404, PAGE, ConfigurationError, "does not know this call"),
        (401, PAGE, ConfigurationError, "refuses this user"),
        (409, b'{"error_code": 40901, "message": "field a"}', ConfigurationError, "it is incompatible"),
        (422, b'{"error_code": 42205, "message": "read-only"}', ConfigurationError, "refuses the call"),
        (503, PAGE, PeerError, "does not answer"),
        (200, PAGE, PeerError, "does not answer"),
    ],
)
def test_each_answer_has_its_error(
    monkeypatch: pytest.MonkeyPatch, status: int, body: bytes, error: type[Exception], fact: str
) -> None:
    with pytest.raises(error, match=fact):
        client(monkeypatch, status, body).by_id(7)


@pytest.mark.parametrize("status", [401, 404])
def test_while_a_job_runs_a_refusal_is_a_matter_of_those_who_run_it(
    monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    with pytest.raises(OperationsError):
        client(monkeypatch, status, PAGE, patient=True).by_id(7)

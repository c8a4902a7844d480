"""A service that speaks HTTPS, with a certificate for another name, by an authority that this machine doesn't know."""

from __future__ import annotations

from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import pytest
from tests.unit.serving.stand_in import StandInJob, running_status

from cutwater.config import Control
from cutwater.errors import ConfigurationError
from cutwater.runtime.flight.credentials import make_credentials
from cutwater.serving.attaching import AttachedControl
from cutwater.serving.certificates import CertificateDiffersError
from cutwater.serving.client import JobClient, JobUnreachableError, find_job
from cutwater.serving.registry import FOLDER_VARIABLE, this_host

pytestmark = pytest.mark.threads


def encrypted(folder: Path, *, host: str = "127.0.0.1") -> Control:
    made = make_credentials()
    certificate, key, token = (folder / name for name in ("driver.pem", "driver.key", "token"))
    certificate.write_bytes(made.certificate + made.authority)
    key.write_bytes(made.key)
    token.write_text("known-to-the-user-alone")
    return Control(host=host, certificate=str(certificate), key=str(key), token_file=str(token))


@pytest.fixture(autouse=True)
def jobs_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "jobs"))


@pytest.fixture(params=["127.0.0.1", "0.0.0.0"])
def service(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[AttachedControl]:
    made = AttachedControl(StandInJob(), name="orders", options=encrypted(tmp_path, host=request.param))
    yield made
    made.close()


def test_another_shell_finds_the_job_and_asks_it(service: AttachedControl) -> None:
    assert find_job("orders").status() == running_status()


def test_a_certificate_that_is_renewed_on_disk_changes_nothing(service: AttachedControl, tmp_path: Path) -> None:
    encrypted(tmp_path)
    assert find_job("orders").status() == running_status()


def test_another_certificate_gets_no_token(service: AttachedControl, tmp_path: Path) -> None:
    known = find_job("orders").registration
    (tmp_path / "other").mkdir()
    other = AttachedControl(StandInJob(), name="others", options=encrypted(tmp_path / "other"))
    fooled = JobClient(msgspec.structs.replace(known, address=find_job("others").registration.address))
    with pytest.raises(CertificateDiffersError):
        fooled._connection().connect()
    with pytest.raises(JobUnreachableError):
        fooled.status()
    other.close()


def test_plain_http_is_not_answered(service: AttachedControl) -> None:
    connection = HTTPConnection(urlsplit(find_job("orders").registration.address).netloc, timeout=10)
    connection.request("GET", "/")
    with pytest.raises((HTTPException, OSError)):
        connection.getresponse()


def test_the_page_of_a_service_for_all_addresses_is_at_the_name_of_its_machine(tmp_path: Path) -> None:
    made = AttachedControl(StandInJob(), name="orders", options=encrypted(tmp_path, host="0.0.0.0"))
    made.close()
    assert urlsplit(made.page).hostname == this_host().lower()


@pytest.mark.parametrize("broken", ["driver.pem", "driver.key"])
@pytest.mark.parametrize("content", [None, "-----BEGIN CERTIFICATE-----\nrubbish"])
def test_a_certificate_that_can_not_be_used_is_refused_when_the_job_starts(
    tmp_path: Path, broken: str, content: str | None
) -> None:
    options = encrypted(tmp_path)
    (tmp_path / broken).unlink() if content is None else (tmp_path / broken).write_text(content)
    with pytest.raises(ConfigurationError, match="can't use its certificate"):
        AttachedControl(StandInJob(), name="orders", options=options)

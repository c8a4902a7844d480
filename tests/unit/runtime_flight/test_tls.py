"""Are strangers kept out when there are certificates?"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from cutwater.batches import ObjectBatch
from cutwater.config import TlsFiles
from cutwater.deploy.slot_process import SlotOrder, decode_order, encode_order
from cutwater.errors import ChannelBrokenError, ConfigurationError
from cutwater.protocol.ids import AttemptNumber
from cutwater.runtime.flight.credentials import Credentials, make_credentials, read_credentials
from cutwater.runtime.flight.outbox import Outbox
from cutwater.runtime.seams import ChannelId

from .conftest import MakeTransport
from .waiting import take, wait_until

CHANNEL = ChannelId(AttemptNumber(1), 0, 0, 0)


def _certificates(folder: Path) -> TlsFiles:
    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=authority", "-days", "1")
    openssl("req", *key, "-keyout", "slot.key", "-out", "slot.csr", "-subj", "/CN=cutwater")
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1\n")
    signed = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "1", "-extfile", "names")
    openssl("x509", "-req", "-in", "slot.csr", *signed, "-out", "slot.pem")
    return TlsFiles(
        certificate=str(folder / "slot.pem"),
        key=str(folder / "slot.key"),
        ca=str(folder / "ca.pem"),
    )


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Credentials:
    return read_credentials(_certificates(tmp_path_factory.mktemp("ours")))


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Credentials:
    return read_credentials(_certificates(tmp_path_factory.mktemp("theirs")))


def test_elements_arrive_over_tls(make_transport: MakeTransport, ours: Credentials) -> None:
    sending, receiving = make_transport(tls=ours), make_transport(tls=ours)
    inbox = receiving.open_input(CHANNEL, "secret")
    sending.open_output(CHANNEL, receiving.address, "secret").send(ObjectBatch([1]))
    assert take(inbox, 1) == [ObjectBatch([1])]


@pytest.mark.parametrize("stranger", ["without a certificate", "with one of another authority"])
def test_a_stranger_is_kept_out(
    make_transport: MakeTransport, ours: Credentials, theirs: Credentials, stranger: str
) -> None:
    tls = None if stranger == "without a certificate" else theirs
    sending = make_transport(tls=tls, connect_timeout_seconds=0.2)
    receiving = make_transport(tls=ours)
    inbox = receiving.open_input(CHANNEL, "secret")
    outbox = sending.open_output(CHANNEL, receiving.address, "secret")
    outbox.send(ObjectBatch([1]))

    assert wait_until(lambda: _is_broken(outbox))
    assert inbox.poll() is None


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    files = _certificates(tmp_path)
    with pytest.raises(ConfigurationError, match=r'the TLS file "nowhere\.pem" can\'t be read'):
        read_credentials(TlsFiles(certificate="nowhere.pem", key=files.key, ca=files.ca))


def test_credentials_made_for_a_job_carry_its_elements(make_transport: MakeTransport) -> None:
    made = make_credentials()
    sending, receiving = make_transport(tls=made), make_transport(tls=made)
    inbox = receiving.open_input(CHANNEL, "secret")
    sending.open_output(CHANNEL, receiving.address, "secret").send(ObjectBatch([1]))
    assert take(inbox, 1) == [ObjectBatch([1])]


def test_credentials_of_another_job_open_no_channel(make_transport: MakeTransport) -> None:
    receiving = make_transport(tls=make_credentials())
    receiving.open_input(CHANNEL, "secret")
    sending = make_transport(tls=make_credentials(), connect_timeout_seconds=0.2)
    outbox = sending.open_output(CHANNEL, receiving.address, "secret")
    assert wait_until(lambda: _is_broken(outbox))


def test_nothing_that_prints_credentials_shows_the_key() -> None:
    made = make_credentials()
    assert "PRIVATE" not in repr(SlotOrder(name="slot-0", coordinator="127.0.0.1:1", token="t", credentials=made))


@pytest.mark.parametrize("given", ["files", "made"])
def test_an_order_carries_them_to_the_slot(given: str) -> None:
    files = TlsFiles(certificate="c", key="k", ca="a") if given == "files" else None
    made = make_credentials() if given == "made" else None
    order = SlotOrder(name="slot-0", coordinator="127.0.0.1:1", token="secret", tls=files, credentials=made)
    assert decode_order(encode_order(order)) == order


def _is_broken(outbox: Outbox) -> bool:
    try:
        outbox.has_room()
    except ChannelBrokenError:
        return True
    return False

"""With what do driver and slots prove to each other that they belong to one job?

Either with files that the user has put on every machine, or with a certificate that the driver makes for the job
(`tls="auto"`): it travels to the slots with their orders, through Spark, and is written to no file.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cutwater.config import TlsFiles
from cutwater.errors import ConfigurationError

#: A job may run for years, and the clocks of its machines differ.
_VALID = timedelta(days=3650)
_CLOCKS_DIFFER = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Credentials:
    """PEM texts. Everyone who has them is a member of the job."""

    certificate: bytes = field(repr=False)
    key: bytes = field(repr=False)
    authority: bytes = field(repr=False)
    #: The name that a server's certificate must bear; empty: that of its host.
    server_name: str = ""


def read_credentials(files: TlsFiles) -> Credentials:
    """Of the user's own authority. Reads files of this machine."""
    return Credentials(_read(files.certificate), _read(files.key), _read(files.ca))


def make_credentials() -> Credentials:
    """A certificate for one job, signed by an authority whose key is gone when this returns."""
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec
    except ImportError as error:
        raise ConfigurationError(
            'tls="auto" needs the package "cryptography"', hint='pip install "cutwater[tls]", in the driver'
        ) from error
    authority_key, member_key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    name = f"{secrets.token_hex(8)}.cutwater.internal"
    authority = _signed(x509, "authority", authority_key.public_key(), authority_key, "authority", is_authority=True)
    member = _signed(x509, name, member_key.public_key(), authority_key, "authority", is_authority=False)
    pem = serialization.Encoding.PEM
    key = member_key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return Credentials(member.public_bytes(pem), key, authority.public_bytes(pem), name)


def _signed(x509: Any, name: str, public_key: Any, signer: Any, issuer: str, *, is_authority: bool) -> Any:
    from cryptography.hazmat.primitives import hashes

    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(_common_name(x509, name))
        .issuer_name(_common_name(x509, issuer))
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCKS_DIFFER)
        .not_valid_after(now + _VALID)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
    )
    if not is_authority:
        usages = [x509.ExtendedKeyUsageOID.SERVER_AUTH, x509.ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    return builder.sign(signer, hashes.SHA256())


def _common_name(x509: Any, name: str) -> Any:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigurationError(
            f'the TLS file "{path}" can\'t be read',
            detail=str(error),
            hint="certificate, key and authority must be at the same paths on the driver and on every executor",
        ) from error

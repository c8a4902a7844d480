"""How does a shell know that it talks to the job's own service, and to no other?

By the fingerprint of the certificate, which the registration has. So it may be signed by any authority or by none, and
bear whatever name people use for the driver's machine.
"""

from __future__ import annotations

import http.client
import ssl
from hashlib import sha256

from cutwater.config import Control
from cutwater.errors import ConfigurationError

_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"


class CertificateDiffersError(ssl.SSLError):
    """Another service answers at the address."""


def fingerprint_of(options: Control) -> str | None:
    """Of the certificate that is served; None: there is none. Refuses files that a server could not start with."""
    if options.certificate is None:
        return None
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(options.certificate, options.key)
        with open(options.certificate, encoding="utf-8") as file:
            certificate = ssl.PEM_cert_to_DER_cert(_first(file.read()))
    except (OSError, ValueError) as error:  # an `SSLError` is an `OSError`
        raise ConfigurationError(
            "the control service can't use its certificate",
            detail=f'"{options.certificate}" with the key "{options.key}": {error}',
            hint="give the files of a certificate and of its key, in PEM, without a password",
        ) from error
    return sha256(certificate).hexdigest()


class PinnedConnection(http.client.HTTPSConnection):
    """Says nothing to a service with another certificate."""

    def __init__(self, host: str, port: int | None, *, timeout: float, fingerprint: str) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        # Neither the name nor the authority matters: the certificate itself is known.
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        super().__init__(host, port, timeout=timeout, context=context)
        self._fingerprint = fingerprint

    def connect(self) -> None:
        super().connect()
        assert isinstance(self.sock, ssl.SSLSocket)
        given = self.sock.getpeercert(binary_form=True)
        if given is None or sha256(given).hexdigest() != self._fingerprint:
            self.close()
            raise CertificateDiffersError("its certificate is not the one that the job registered")


def _first(pem: str) -> str:
    """The authorities that signed it may follow."""
    return pem[pem.index(_BEGIN) : pem.index(_END)] + _END

"""Was this written by a driver that knows the job's secret?

The secret stays in the driver, which signs and checks everything itself: pickled with a job on its way to the slots, it
arrives as the bare fact that there is one.
"""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path

from cutwater.errors import ConfigurationError, InternalError

SECRET_BYTES_MIN = 16
_MAKE_ONE = "make one: python -c 'import secrets; print(secrets.token_hex(32))' > secret.txt"


class Secret:
    """What signs snapshots. Not to be seen in any text, and not to be copied into another process."""

    __slots__ = ("_key",)

    def __init__(self, key: bytes | None) -> None:
        """None: the secret is in another process."""
        self._key = key

    def signature(self, text: bytes, *, about: str) -> str:
        """HMAC-SHA256. `about` says what the text is, so that it can't stand for anything else."""
        if self._key is None:
            raise InternalError("only the driver, which knows the secret, can sign")
        return hmac.new(self._key, about.encode() + b"\0" + text, hashlib.sha256).hexdigest()

    def accepts(self, signature: str, text: bytes, *, about: str) -> bool:
        return hmac.compare_digest(self.signature(text, about=about).encode(), signature.encode())

    def __repr__(self) -> str:
        return "Secret(…)"

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, _: object) -> Secret:
        return self

    def __reduce__(self) -> tuple[object, ...]:
        return Secret, (None,)


def secret_of(value: Secret | bytes | str) -> Secret:
    """Raises `ConfigurationError` for one that could be guessed."""
    if isinstance(value, Secret):
        return value
    if not isinstance(value, (bytes, str)):
        raise ConfigurationError("the secret is neither text nor bytes", hint=_MAKE_ONE)
    key = value.encode() if isinstance(value, str) else bytes(value)
    if len(key) < SECRET_BYTES_MIN:
        raise ConfigurationError(f"the secret is shorter than {SECRET_BYTES_MIN} bytes", hint=_MAKE_ONE)
    return Secret(key)


def secret_from_file(path: str | Path) -> Secret:
    """The content of the file, without the end of its last line."""
    if not isinstance(path, (str, Path)):
        raise ConfigurationError(f"secret_file is not a path: {path!r}")
    try:
        return secret_of(Path(path).expanduser().read_bytes().rstrip(b"\r\n"))
    except (OSError, ValueError, RuntimeError) as error:
        raise ConfigurationError(
            f"the secret file {str(path)!r} can't be read", detail=str(error), hint=_MAKE_ONE
        ) from error

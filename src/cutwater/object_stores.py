"""How is an object store opened: S3 and what speaks like it, Google Cloud Storage, Azure?

Credentials and endpoint come from the environment (AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL, AWS_ALLOW_HTTP, …) or the
machine's role, in the driver and in every slot. Snapshots and files of connectors are opened here, in one way.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

from cutwater.errors import ConfigurationError

_AZURE = ("az", "abfs", "abfss")
SCHEMES = ("s3", "s3a", "gs", *_AZURE)
#: A server that restarts is back within seconds; to fail for it would cost more than to wait.
PATIENCE_SECONDS = 90.0
#: When a person waits for the answer.
HASTE_SECONDS = 3.0
_RETRIES_MAX = 1000
#: What S3, Azure and Google answer. Azure's message has a second and a third line, with the number of the request.
_CODE = re.compile(r"<Code>\s*(.*?)\s*</Code>(?:\s*<Message>\s*([^<\n]*))?", re.DOTALL)
_REQUEST = re.compile(r"Error performing ([A-Z]+) (\S+) in .*? - (.*)", re.DOTALL)
_NO_ANSWER = "error sending request"
_STATUS = re.compile(r"Server returned non-2xx status code: (.*?):?\s*$")
#: Where all clouds tell a machine its role.
_MACHINES_ROLE = ("http://169.254.169.254/", "http://metadata.google.internal/", "http://metadata/")


def open_store(url: str, *, patience_seconds: float = PATIENCE_SECONDS) -> Any:
    """An obstore store of everything below the URL. A request goes on for so long when the server is gone."""
    try:
        from obstore import exceptions
        from obstore.store import from_url
    except ImportError as error:
        raise ConfigurationError(
            f'storage "{url}" needs a library that is not installed',
            hint='pip install "cutwater[object-storage]", in the driver and on every worker',
        ) from error
    # Spark spells it s3a.
    spelled = url.replace("s3a://", "s3://", 1)
    # S3 copies unless the name is taken only in this way: the last step of an upload in parts has that condition.
    copies: dict[str, Any] = {"copy_if_not_exists": "multipart"} if spelled.startswith("s3://") else {}
    try:
        return from_url(spelled, retry_config=_retries(patience_seconds), **copies)
    except (ValueError, exceptions.BaseError) as error:
        raise ConfigurationError(f'storage "{url}" can\'t be opened', detail=reason_of(error)) from error


def reason_of(error: BaseException) -> str:
    """What the store said, in one line: its own error has dozens, with a request and a trace in them."""
    told = str(error).partition("\n\nDebug source:")[0].strip()
    code = _CODE.search(told)
    if code is not None:
        return ": ".join(part.strip() for part in code.groups() if part)
    request = _REQUEST.search(told)
    if request is not None:
        verb, address, problem = request.groups()
        if address.startswith(_MACHINES_ROLE):
            return "no credentials: there are none in the environment, and the machine has no role"
        status = _STATUS.search(problem)
        problem = "no answer" if _NO_ANSWER in problem else problem.strip()
        return f"{status[1] if status else problem} ({verb} {address})".replace("\n", " ")
    return told.partition("\n")[0]


def is_azure(url: str) -> bool:
    return url.partition("://")[0] in _AZURE


def _retries(patience_seconds: float) -> Any:
    backoff = {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=2), "base": 2}
    # The time is the limit, not the number: with little luck ten retries are over in three seconds.
    return {
        "backoff": backoff,
        "max_retries": _RETRIES_MAX,
        "retry_timeout": timedelta(seconds=patience_seconds),
    }

from __future__ import annotations

import pytest

from cutwater.errors import ConfigurationError
from cutwater.object_stores import open_store, reason_of

pytest.importorskip("obstore")

REFUSED = """The operation lacked the necessary privileges to complete for path q: Error performing PUT \
http://127.0.0.1:1/bucket/q in 275.5µs - Server returned non-2xx status code: 403 Forbidden: <?xml version="1.0"?>
<Error><Code>SignatureDoesNotMatch</Code><Message>Check your key.</Message></Error>

Debug source:
PermissionDenied { … }"""
WITHOUT_BODY = """Not found: Error performing HEAD http://127.0.0.1:1/bucket/q in 1ms - Server returned non-2xx status \
code: 404 Not Found:

Debug source:
…"""
NO_SERVER = """Generic S3 error: Error performing PUT http://127.0.0.1:9/bucket/q in 3s, after 12 retries, \
max_retries: 1000, retry_timeout: 3s  - HTTP error: error sending request

Debug source:
HttpError { kind: Connect, … }"""


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (REFUSED, "SignatureDoesNotMatch: Check your key."),
        (WITHOUT_BODY, "404 Not Found (HEAD http://127.0.0.1:1/bucket/q)"),
        (NO_SERVER, "no answer (PUT http://127.0.0.1:9/bucket/q)"),
        ("something\nlong", "something"),
    ],
)
def test_what_a_store_says_is_one_line(told: str, expected: str) -> None:
    assert reason_of(Exception(told)) == expected


def test_a_url_that_no_store_has_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="can't be opened"):
        open_store("abfs://")

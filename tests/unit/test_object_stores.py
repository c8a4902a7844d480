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
REFUSED_BY_AZURE = """Object at location q not found: Error performing PUT http://127.0.0.1:1/account/container/q in \
21.07416ms - Server returned non-2xx status code: 404 Not Found: <?xml version="1.0" encoding="UTF-8" standalone="yes"?>
<Error>
  <Code>ContainerNotFound</Code>
  <Message>The specified container does not exist.
RequestId:f708ecd6-0c29-4fa3-a8d2-a92a385ba600
Time:2026-11-17T16:24:21.529Z</Message>
</Error>

Debug source:
NotFound { … }"""
REFUSED_BY_GOOGLE = """Generic GCS error: Error performing PUT http://127.0.0.1:1/bucket/q in 2ms - Server returned \
non-2xx status code: 404 Not Found: <?xml version='1.0' encoding='UTF-8'?><Error><Code>NoSuchBucket</Code><Message>The \
specified bucket does not exist.</Message><BucketName>bucket</BucketName></Error>

Debug source:
…"""
NO_CREDENTIALS = """Generic MicrosoftAzure error: Error performing token request: Error performing GET \
http://169.254.169.254/metadata/identity/oauth2/token?api-version=2019-08-01 in 3s, after 12 retries, \
max_retries: 1000, retry_timeout: 3s  - HTTP error: error sending request

Debug source:
…"""
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
        (REFUSED_BY_AZURE, "ContainerNotFound: The specified container does not exist."),
        (REFUSED_BY_GOOGLE, "NoSuchBucket: The specified bucket does not exist."),
        (NO_CREDENTIALS, "no credentials: there are none in the environment, and the machine has no role"),
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

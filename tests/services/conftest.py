"""Real servers on free loopback ports, stopped by their process when the tests are over."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

BUCKET = "cutwater-tests"


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of an empty bucket; the environment says where it is, to this process and those it starts."""
    port = free_port()
    log = (tmp_path_factory.mktemp("moto") / "log.txt").open("w")
    server = subprocess.Popen(
        [str(Path(sys.executable).with_name("moto_server")), "-H", "127.0.0.1", "-p", str(port)],
        stdout=log,
        stderr=subprocess.STDOUT,
    )
    endpoint = f"http://127.0.0.1:{port}"
    variables = {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
    }
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        wait_until_up(endpoint)
        make_bucket = urllib.request.Request(f"{endpoint}/{BUCKET}", method="PUT")
        urllib.request.urlopen(make_bucket, timeout=10).close()
        yield f"s3://{BUCKET}"
    finally:
        server.kill()
        server.wait()
        log.close()
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@pytest.fixture(scope="module")
def spark(s3: str) -> Iterator[Any]:
    """Its workers know where the servers are, as an administrator would tell them."""
    from cutwater.deploy.session import embedded_session

    variables = {f"spark.executorEnv.{name}": value for name, value in os.environ.items() if name.startswith("AWS_")}
    session = embedded_session(4, settings=variables)
    yield session
    session.stop()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_until_up(endpoint: str, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while True:
        try:
            urllib.request.urlopen(endpoint, timeout=5).close()
        except OSError:
            assert time.monotonic() < deadline, f"{endpoint} does not answer"
            time.sleep(0.1)
        else:
            return

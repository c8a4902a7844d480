"""Does an object store keep the promises of a storage, and does a job survive on it?"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from servers.azurite import CONTAINER, Azurite
from servers.seaweedfs import BUCKET

import cutwater as cw
from cutwater.errors import InternalError, StorageError
from cutwater.inspection.storages import snapshots_below
from cutwater.snapshots.storage import Storage, open_storage

RECORDS = 6_000
KEYS = 40


@pytest.fixture(scope="module", params=["seaweedfs", "azurite"])
def store(request: pytest.FixtureRequest) -> str:
    """The URL of a bucket or container; the environment says where it is."""
    found = request.getfixturevalue(request.param)
    return f"az://{CONTAINER}" if isinstance(found, Azurite) else f"s3://{BUCKET}"


@pytest.fixture(scope="module")
def spark(store: str) -> Iterator[Any]:
    """Its workers know where the server is, as an administrator would tell them."""
    from cutwater.deploy.session import embedded_session

    prefixes = ("AWS_", "AZURE_")
    variables = {f"spark.executorEnv.{name}": value for name, value in os.environ.items() if name.startswith(prefixes)}
    session = embedded_session(4, settings=variables)
    yield session
    session.stop()


@pytest.fixture
def url(store: str) -> str:
    return f"{store}/{uuid.uuid4().hex}"


@pytest.fixture
def storage(url: str) -> Storage:
    return open_storage(url)


def test_what_was_written_is_read_listed_and_deleted(storage: Storage) -> None:
    for path in ("a/2", "a/b/1", "ab/3", "c"):
        storage.write(path, b"old")
        storage.write(path, path.encode())
    assert storage.read("a/b/1") == b"a/b/1"
    assert (storage.size_bytes("ab/3"), storage.size_bytes("ab"), storage.exists("c")) == (4, None, True)
    assert storage.list("a") == ["a/2", "a/b/1"]
    assert storage.list("") == ["a/2", "a/b/1", "ab/3", "c"]
    storage.delete("c")
    storage.delete("c")
    storage.delete_folder("a")
    assert storage.list("") == ["ab/3"]


def test_a_large_file_goes_up_in_parts_and_comes_down_whole(storage: Storage, tmp_path: Path) -> None:
    content = random.Random(1).randbytes(17_000_000)
    (tmp_path / "here").write_bytes(content)
    storage.upload("folder/there", str(tmp_path / "here"))
    assert storage.size_bytes("folder/there") == len(content)
    storage.download("folder/there", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == content


def test_what_is_not_there_is_named_and_nothing_leaves_the_prefix(storage: Storage) -> None:
    with pytest.raises(StorageError, match=r'nothing" does not exist'):
        storage.read("a/nothing")
    with pytest.raises(InternalError, match="not a path below"):
        storage.write("a/../../b", b"")


@pytest.mark.parametrize("path", ["journal/0", "journal/1", "journal/2"])
def test_of_many_that_create_one_file_one_does(storage: Storage, path: str) -> None:
    created: list[int] = []
    starts = threading.Barrier(8)

    def create(writer: int) -> None:
        starts.wait()
        if storage.create_if_absent(path, str(writer).encode()):
            created.append(writer)

    threads = [threading.Thread(target=create, args=(writer,)) for writer in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(created) == 1
    assert storage.read(path) == str(created[0]).encode()


def elsewhere(store: str) -> str:
    """A bucket or container that isn't there."""
    return f"{store.partition('://')[0]}://no-such-bucket"


def test_a_bucket_that_is_not_there_is_an_error_with_a_hint(store: str) -> None:
    with pytest.raises(StorageError) as error:
        open_storage(f"{elsewhere(store)}/x").check_writable()
    told, hint = {
        # To a user who may not make buckets, SeaweedFS doesn't say which there are.
        "s3": ("AccessDenied: Access Denied.", "does the bucket exist"),
        "az": ("ContainerNotFound: The specified container does not exist.", "does the container exist"),
    }[store.partition("://")[0]]
    assert (error.value.detail, error.value.hint.partition(",")[0]) == (told, hint)


def test_files_in_a_bucket_that_is_not_there_are_an_error_in_the_driver(store: str) -> None:
    with pytest.raises(StorageError) as of_sink:
        cw.sinks.text(f"{elsewhere(store)}/out").check()
    with pytest.raises(StorageError) as of_source:
        cw.sources.files(f"{elsewhere(store)}/in/*", watch=True).check()
    to_write, to_list = {
        "s3": ("AccessDenied", "NoSuchBucket"),
        "az": ("ContainerNotFound", "ContainerNotFound"),
    }[store.partition("://")[0]]
    assert (to_write in of_sink.value.in_one_line, to_list in of_source.value.in_one_line) == (True, True)


@pytest.mark.parametrize(
    ("store", "backend"), [("seaweedfs", "filesystem"), ("azurite", "rocksdb")], indirect=["store"]
)
def test_a_job_whose_worker_is_killed_goes_on_from_the_object_store(
    url: str, tmp_path: Path, spark: Any, backend: str
) -> None:
    env = cw.Environment(
        spark=spark,
        parallelism=2,
        state_backend=backend,
        checkpoints=cw.Checkpoints(every="300ms", storage=url, tolerable_failures=20, retain=2),
        restart=cw.restart.fixed_delay(attempts=5, delay="0s"),
        inline_state_bytes_max=0,
    )
    source = cw.sources.generator(lambda number: f"key-{number % KEYS}", count=RECORDS, per_second=1_500, splits=2)
    counts = env.from_source(source, uid="numbers").key_by(lambda key: key).count(uid="count")
    counts.sink_to(cw.sinks.json_lines(str(tmp_path / "out")), uid="out")
    job = env.submit("object store", require="exactly_once")
    deadline = time.monotonic() + 90
    while (status := job.status()).checkpoints_completed < 2:
        assert time.monotonic() < deadline, status
        time.sleep(0.01)
    os.kill(next(slot.pid for slot in status.slots if slot.tasks), signal.SIGKILL)
    assert job.wait("90s").restarts == 1
    lines = [line for path in (tmp_path / "out").glob("*.jsonl") for line in path.read_text().splitlines()]
    expected = Counter(
        f'{{"key":"key-{key}","count":{n}}}' for key in range(KEYS) for n in range(1, RECORDS // KEYS + 1)
    )
    assert Counter(line.replace(" ", "") for line in lines) == expected
    # An older one may be on its way out just now.
    assert any(found.snapshot is not None for found in snapshots_below(url))

"""Do files on S3, Azure and HDFS do what local ones do, without making the loop wait? Does a wrong address say so?"""

from __future__ import annotations

import os
import random
import threading
import uuid
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from servers.azurite import ACCOUNT, CONTAINER, Azurite
from servers.hdfs import Hdfs
from servers.process import Server
from servers.seaweedfs import BUCKET, SeaweedFs

import cutwater as cw
from cutwater.connectors.contract import Source
from cutwater.connectors.file_system import FileSystem, file_system_of
from cutwater.errors import StorageError
from cutwater.protocol.ids import AttemptNumber, CheckpointId
from cutwater.protocol.known_origins import KnownOrigins

from .conftest import variables_set
from .endpoints import Reading, Writing, read
from .rehearsals import Rehearsal

NUMBERS = list(range(1_000))


@dataclass(frozen=True)
class Place:
    """A folder that no other test uses."""

    folder: str
    server: Server

    @property
    def files(self) -> FileSystem:
        return file_system_of(self.folder)

    def put(self, name: str, content: bytes) -> str:
        path = f"{self.folder}/{name}"
        self.files.make_folder(path.rpartition("/")[0])
        with self.files.create(path) as file:
            file.write(content)
        return path

    def lines(self) -> list[str]:
        """Of all files that can be seen."""
        found = []
        for path in sorted(each.path for each in self.files.matching(self.folder)):
            with self.files.open(path) as file:
                found += file.read().decode().splitlines()
        return found


@pytest.fixture(params=["seaweedfs", "azurite", "hdfs"])
def place(request: pytest.FixtureRequest) -> Place:
    server = request.getfixturevalue(request.param)
    match server:
        case SeaweedFs():
            root = f"s3://{BUCKET}"
        case Azurite():
            root = f"az://{CONTAINER}"
        case _:
            root = server.url
    return Place(f"{root}/{uuid.uuid4().hex}", server)


def text_of(numbers: Sequence[int]) -> bytes:
    return "".join(f"{number}\n" for number in numbers).encode()


def parquet_of(numbers: Sequence[int]) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"n": numbers}), sink, row_group_size=300)
    return sink.getvalue().to_pybytes()


def read_all(source: Source) -> list[Any]:
    splits = len(source.discover(parallelism=2).splits)
    return [value for split in range(splits) for value in read(source, 1 << 30, split=split)[0]]


# --------------------------------------------------------------------------------------------------------------- source


def test_lines_are_read_in_parts_with_the_path_of_their_file(place: Place) -> None:
    path = place.put("deep/er/lines.txt", text_of(NUMBERS))
    source = cw.sources.files(f"{place.folder}/**/*.txt", split_bytes=500, include_path=True)
    assert read_all(source) == [(path, str(number)) for number in NUMBERS]


@pytest.mark.parametrize(
    ("format", "content"),
    [
        ("parquet", parquet_of(NUMBERS)),
        ("csv", b"n\n" + text_of(NUMBERS)),
        ("json", b"".join(b'{"n": %d}\n' % number for number in NUMBERS)),
    ],
)
def test_other_formats_are_read_as_from_local_files(place: Place, format: Any, content: bytes) -> None:  # noqa: A002
    place.put(f"file.{format}", content)
    place.put(f"_unfinished.{format}", content)
    source = cw.sources.files(place.folder, format=format, split_bytes=500)
    values = read_all(source)
    assert [value["n"] if isinstance(value, dict) else value.n for value in values] == NUMBERS


@pytest.mark.parametrize("format", ["text", "parquet"])
def test_a_reader_goes_on_at_its_position(place: Place, format: Any) -> None:  # noqa: A002
    place.put("file", text_of(NUMBERS) if format == "text" else parquet_of(NUMBERS))
    source = cw.sources.files(place.folder, format=format)
    first, position = read(source, 1)
    rest, _ = read(source, 1 << 30, position=position)
    whole, _ = read(source, 1 << 30)
    assert first + rest == whole


@pytest.mark.parametrize("format", ["text", "parquet"])
def test_nothing_is_lost_or_repeated_when_attempts_fail_and_the_server_is_killed(
    seaweedfs: SeaweedFs,
    format: Any,  # noqa: A002
) -> None:
    place = Place(f"s3://{BUCKET}/{uuid.uuid4().hex}", seaweedfs)
    numbers = list(range(100_000))
    place.put("file", text_of(numbers) if format == "text" else parquet_of(numbers))
    source = cw.sources.files(place.folder, format=format)
    (split,) = source.discover(1).splits
    kills = iter([seaweedfs.restart])
    rehearsal = Rehearsal(source, split, random.Random(1))
    rehearsal.read(
        lambda records: len(records) >= len(numbers), failures=6, between=lambda: next(kills, lambda: None)()
    )
    values = [int(value) if format == "text" else value.n for value in rehearsal.records]
    assert (values, rehearsal.failures) == (numbers, 6)


def test_a_watched_folder_gives_files_that_appear_later(place: Place) -> None:
    place.put("1", b"one\n")
    source = cw.sources.files(f"{place.folder}/*", watch=True)
    first = source.discover(1)
    second_path = place.put("2", b"two\n")
    second = source.discover_new(1, KnownOrigins.of(split.origin for split in first.splits))
    assert [split.origin for split in second.splits] == [second_path]


def test_a_server_that_hangs_does_not_make_a_reader_wait(place: Place) -> None:
    place.put("file", text_of(NUMBERS))
    source = cw.sources.files(place.folder)
    (split,) = source.discover(1).splits
    place.server.pause()
    try:
        with Reading(source, split) as reading:
            while_paused = reading.reader.read(10, 0.0)
            place.server.resume()
            assert (while_paused, reading.until(1 << 30)) == (None, [str(number) for number in NUMBERS])
    finally:
        place.server.resume()


# ----------------------------------------------------------------------------------------------------------------- sink


def test_what_was_written_appears_once_when_it_is_committed(place: Place) -> None:
    sink = cw.sinks.text(place.folder, roll_bytes=1_000)
    sink.check()
    with Writing(sink) as writing:
        for start in range(0, len(NUMBERS), 100):
            writing.write(NUMBERS[start : start + 100])
        prepared = writing.prepare()
        before = place.lines()
        sink.commit(prepared)
        sink.commit(prepared)
    assert (before, sorted(map(int, place.lines()))) == ([], NUMBERS)


def test_recovery_publishes_what_the_snapshot_names_and_deletes_the_rest(place: Place) -> None:
    sink = cw.sinks.text(place.folder)
    writing = Writing(sink)  # never closed: its process is dead
    writing.write(["named"])
    named = writing.prepare()
    writing.write(["not named"])
    writing.prepare()
    sink.recover(job_id=sink.name, uid="sink", committables=named, attempt=AttemptNumber(2))
    assert (place.lines(), place.files.names(f"{place.folder}/.pending")) == (["named"], [])


def test_a_prepared_file_is_published_in_another_folder(place: Place) -> None:
    with Writing(cw.sinks.text(f"{place.folder}/old")) as writing:
        writing.write(["line"])
        prepared = writing.prepare()
        new = Place(f"{place.folder}/new", place.server)
        cw.sinks.text(new.folder).recover(job_id="other", uid="sink", committables=prepared)
    assert new.lines() == ["line"]


def test_a_file_of_several_parts_is_read_as_it_was_written(place: Place) -> None:
    content = random.Random(1).randbytes(20_000_000)
    with place.files.open(place.put("large", content)) as file:
        assert file.read() == content


def test_of_many_that_publish_under_one_name_one_does(place: Place) -> None:
    if isinstance(place.server, SeaweedFs):
        pytest.skip("SeaweedFS 4.48 lets several through that complete an upload in the same instant")
    name = f"{place.folder}/taken"
    paths = [place.put(f".pending/{writer}", str(writer).encode()) for writer in range(8)]
    published: list[str] = []
    starts = threading.Barrier(len(paths))

    def publish(path: str) -> None:
        starts.wait()
        with suppress(FileExistsError):
            place.files.publish(path, name)
            published.append(path)

    threads = [threading.Thread(target=publish, args=(path,)) for path in paths]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [f"{place.folder}/.pending/{line}" for line in place.lines()] == published


def test_a_server_that_hangs_does_not_make_a_writer_wait(place: Place) -> None:
    sink = cw.sinks.text(place.folder)
    with Writing(sink) as writing:
        place.server.pause()
        try:
            writing.write(["line"])
            promise = writing.writer.prepare(CheckpointId(1))
            assert isinstance(promise, Future)
            was_kept = promise.done()
        finally:
            place.server.resume()
        sink.commit(promise.result(60))
    assert (was_kept, place.lines()) == (False, ["line"])


def test_a_writer_waits_for_a_server_that_was_killed(place: Place) -> None:
    if isinstance(place.server, Hdfs) and os.environ.get("CUTWATER_TRIALS") != "all":
        pytest.skip("HDFS is slow to start: in make test-connectors")
    sink = cw.sinks.text(place.folder)
    with Writing(sink) as writing:
        place.server.kill()
        writing.write(["line"])
        promise = writing.writer.prepare(CheckpointId(1))
        place.server.restart()
        sink.commit(promise.result(60))
    assert place.lines() == ["line"]


# --------------------------------------------------------------------------------------------------------------- errors


def told(error: pytest.ExceptionInfo[StorageError]) -> str:
    return error.value.in_one_line


WRONG_KEY = {"AWS_SECRET_ACCESS_KEY": "wrong", "AZURE_STORAGE_ACCOUNT_KEY": "d3Jvbmc="}


@pytest.mark.parametrize(
    ("name", "root", "code"),
    [
        ("seaweedfs", f"s3://{BUCKET}", "SignatureDoesNotMatch"),
        ("azurite", f"az://{CONTAINER}", "AuthorizationFailure"),
        ("azurite", f"abfss://{CONTAINER}@{ACCOUNT}.dfs.core.windows.net", "AuthorizationFailure"),
    ],
)
def test_wrong_credentials_are_named(request: pytest.FixtureRequest, name: str, root: str, code: str) -> None:
    server = request.getfixturevalue(name)
    with variables_set({**server.environment, **WRONG_KEY}):
        with pytest.raises(StorageError) as of_sink:
            cw.sinks.text(f"{root}/out").check()
        with pytest.raises(StorageError) as of_source:
            cw.sources.files(f"{root}/in/*").check()
    assert [code in told(of_sink), "403 Forbidden" in told(of_source)] == [True, True]
    assert ["\n" in error.value.detail for error in (of_sink, of_source)] == [False, False]


@pytest.mark.parametrize("url", ["s3://bucket/x", "az://container/x", "hdfs://127.0.0.1:9/x"])
def test_an_address_where_nothing_listens_is_an_error_soon(url: str) -> None:
    variables = {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AZURE_STORAGE_ENDPOINT": "http://127.0.0.1:9/account",
        "AZURE_ALLOW_HTTP": "true",
        "AZURE_STORAGE_ACCOUNT_NAME": "account",
        "AZURE_STORAGE_ACCOUNT_KEY": "c2VjcmV0",
    }
    with variables_set(variables), pytest.raises(StorageError, match="can't be written") as error:
        cw.sinks.text(url).check()
    assert "127.0.0.1:9" in told(error)

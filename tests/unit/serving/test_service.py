"""The control service, asked by its client and by strangers. Real sockets, a job that runs nowhere."""

from __future__ import annotations

import asyncio
import http.client
import json
import select
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import pytest
from starlette.types import Message
from tests.unit.serving.stand_in import StandInJob, running_status

from cutwater.config import Control
from cutwater.errors import ConfigurationError, OperationsError
from cutwater.protocol.lifecycle import JobState
from cutwater.serving import words
from cutwater.serving.access import BODY_BYTES_MAX
from cutwater.serving.app import application
from cutwater.serving.client import JobClient, JobUnreachableError, RequestRefusedError
from cutwater.serving.endpoints import ENDPOINTS, Served
from cutwater.serving.openapi import JOB
from cutwater.serving.operations import UNDER_WAY_MAX, RunningOperations
from cutwater.serving.pacing import Pace
from cutwater.serving.registry import Registration
from cutwater.serving.service import ControlService
from cutwater.serving.tokens import Tokens
from cutwater.status import CheckpointDetails, LogLine

pytestmark = pytest.mark.threads

READ_TOKEN = "only-for-those-who-look"
AUTHORIZED = (b"authorization", b"Bearer a-token")


class Service:
    """A running one, and ways to ask it."""

    def __init__(self, folder: Path) -> None:
        self.job = StandInJob()
        read_only = folder / "read-only"
        read_only.write_text(READ_TOKEN)
        self.service = ControlService(self.job, Control(read_only_token_file=str(read_only)))
        self.token = self.service.tokens.change
        self.client = self.client_with(self.token)

    def client_with(self, token: str) -> JobClient:
        return JobClient(Registration("orders", "orders", self.service.address, token, "here", 1, 0))

    def ask(self, method: str, path: str, body: bytes = b"", token: str | None = None) -> tuple[int, str]:
        connection = http.client.HTTPConnection(urlsplit(self.service.address).netloc, timeout=30)
        headers = {} if token == "" else {"authorization": f"Bearer {token or self.token}"}
        connection.request(method, path, body or None, headers)
        response = connection.getresponse()
        text = response.read().decode()
        connection.close()
        return response.status, text


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    made = Service(tmp_path)
    yield made
    made.service.close()


def test_the_status_arrives_as_it_is(service: Service) -> None:
    assert service.client.status() == running_status()
    assert service.client.checkpoints() == list(running_status().checkpoints)
    assert service.client.exceptions().recoveries[0].cause == "slot slot-1 was lost"


def test_a_checkpoint_is_told_task_by_task(service: Service) -> None:
    status, text = service.ask("GET", "/jobs/orders/checkpoints/4")
    assert status == 200
    assert msgspec.json.decode(text, type=CheckpointDetails) == service.job.checkpoint_details(4)


@pytest.mark.parametrize(
    "path",
    [
        "/jobs",
        "/jobs/orders",
        "/jobs/others",
        "/openapi.json",
        "/nowhere",
        "/jobs/../etc",
        "/assets/main.js",
        "/session",
    ],
)
@pytest.mark.parametrize("token", ["", "wrong", READ_TOKEN[:-1]])
def test_without_the_token_nobody_learns_what_exists(service: Service, path: str, token: str) -> None:
    expected = '{"kind":"Refusal","fact":"a token is needed","detail":"","hint":""}'
    assert service.ask("GET", path, token=token) == (401, expected)
    assert service.ask("POST", path, b"{}", token=token) == (401, expected)


def test_whoever_may_only_look_changes_nothing(service: Service) -> None:
    reader = service.client_with(READ_TOKEN)
    assert reader.status().attempt == 2
    for endpoint in ENDPOINTS:
        if endpoint.changes:
            assert service.ask("POST", f"/jobs/orders{endpoint.path}", b"{}", READ_TOKEN)[0] == 403
    assert service.job.asked == []


def test_a_savepoint_is_asked_for_and_polled(service: Service) -> None:
    may_end = threading.Event()
    service.job.does = lambda what: "file:///savepoints/7" if may_end.wait(30) else ""
    begun = service.client.savepoint("file:///savepoints")
    assert (begun.state, begun.what) == ("in_progress", "savepoint")
    may_end.set()
    assert service.client.wait_for(begun).path == "file:///savepoints/7"
    assert service.job.asked == [("savepoint", "file:///savepoints")]


def test_what_can_not_be_done_says_why(service: Service) -> None:
    def fails(what: object) -> str:
        raise OperationsError("there are 2 cores", detail="4 are needed", hint="free some")

    service.job.does = fails
    with pytest.raises(RequestRefusedError) as refused:
        service.client.wait_for(service.client.rescale(4))
    assert (refused.value.fact, refused.value.detail) == ("there are 2 cores", "4 are needed")


def test_checkpoint_stop_rescale_and_cancel_reach_the_job(service: Service) -> None:
    client = service.client
    client.wait_for(client.checkpoint())
    client.wait_for(client.rescale(3))
    client.wait_for(client.stop("file:///s", drain=True))
    client.cancel()
    assert service.job.asked == ["checkpoint", ("rescale", 3), ("stop", "file:///s", True), "cancel"]
    assert service.ask("POST", "/jobs/orders/cancel")[0] == 409


def test_whoever_stopped_the_job_hears_the_answer_after_its_end(service: Service) -> None:
    def ends(what: object) -> str:
        service.job.end(JobState.FINISHED)
        return "file:///savepoints/9"

    service.job.does = ends
    begun = service.client.stop("file:///savepoints", drain=False)
    lingering = threading.Thread(target=service.service.linger)
    lingering.start()
    assert service.client.wait_for(begun).path == "file:///savepoints/9"
    lingering.join()
    service.service.close()
    with pytest.raises(JobUnreachableError):
        service.client.status()


def test_an_answer_that_is_half_sent_is_waited_for() -> None:
    served, sent_before = Served(StandInJob(), RunningOperations()), []

    async def send(message: Message) -> None:
        sent_before.append((message["type"], served.listeners.wait_until_gone(0)))

    scope = {"type": "http", "method": "GET", "path": "/jobs", "query_string": b"", "headers": [AUTHORIZED]}
    asyncio.run(application(served, Tokens("a-token"))(scope, _nothing_more, send))
    assert sent_before == [("http.response.start", False), ("http.response.body", False)]
    assert served.listeners.wait_until_gone(0)


async def _nothing_more() -> Message:
    return {"type": "http.disconnect"}


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/jobs/others", b"", 404),
        ("GET", "/nowhere", b"", 404),
        ("GET", "/jobs/orders/../../etc/passwd", b"", 404),
        ("GET", "/jobs/orders/checkpoints/77", b"", 404),
        ("GET", "/jobs/orders/checkpoints/latest", b"", 404),
        ("GET", "/jobs/orders/checkpoints/" + "9" * 5_000, b"", 404),
        ("GET", "/jobs/orders/operations/savepoint-1", b"", 404),
        ("PUT", "/jobs/orders", b"", 405),
        ("POST", "/jobs/orders/savepoints", b"", 400),
        ("POST", "/jobs/orders/savepoints", b"{}", 400),
        ("POST", "/jobs/orders/savepoints", b'{"folder": ""}', 400),
        ("POST", "/jobs/orders/savepoints", b'{"folder": "a", "other": 1}', 400),
        ("POST", "/jobs/orders/savepoints", b"[" * 50_000, 400),
        ("POST", "/jobs/orders/rescale", b'{"parallelism": 0}', 400),
        ("POST", "/jobs/orders/rescale", b'{"parallelism": "\xff"}', 400),
        ("POST", "/jobs/orders/savepoints", b" " * (BODY_BYTES_MAX + 1), 413),
    ],
)
def test_what_can_not_be_answered_is_refused_in_json(
    service: Service, method: str, path: str, body: bytes, status: int
) -> None:
    found, text = service.ask(method, path, body)
    assert found == status
    assert json.loads(text)["fact"]
    assert service.job.asked == []


def test_a_path_with_two_methods_says_both(service: Service) -> None:
    connection = http.client.HTTPConnection(urlsplit(service.service.address).netloc, timeout=30)
    connection.request("PUT", "/jobs/orders/checkpoints", headers={"authorization": f"Bearer {service.token}"})
    response = connection.getresponse()
    assert (response.status, set(response.headers["allow"].split(", "))) == (405, {"GET", "HEAD", "POST"})
    connection.close()


def test_a_whole_number_may_be_written_with_a_point(service: Service) -> None:
    _, text = service.ask("POST", "/jobs/orders/rescale", b'{"parallelism": 4.0}')
    service.client.wait_for(msgspec.json.decode(text, type=words.Operation))
    assert service.job.asked == [("rescale", 4)]


def test_a_body_without_a_length_is_cut_off(service: Service) -> None:
    connection = http.client.HTTPConnection(urlsplit(service.service.address).netloc, timeout=30)
    pieces = (b"x" * 8192 for _ in range(100))
    headers = {"authorization": f"Bearer {service.token}"}
    try:
        connection.request("POST", "/jobs/orders/savepoints", pieces, headers, encode_chunked=True)
        assert connection.getresponse().status == 413
    except (BrokenPipeError, ConnectionResetError):
        pass  # it did not even read to the end
    assert service.client.status().attempt == 2


def test_not_more_than_so_much_is_under_way(service: Service) -> None:
    may_end = threading.Event()
    service.job.does = lambda what: str(may_end.wait(30))
    begun = [service.client.checkpoint() for _ in range(UNDER_WAY_MAX)]
    assert service.ask("POST", "/jobs/orders/checkpoints")[0] == 429
    may_end.set()
    for each in begun:
        service.client.wait_for(each)


def test_the_events_end_with_the_job(service: Service) -> None:
    connection = http.client.HTTPConnection(urlsplit(service.service.address).netloc, timeout=30)
    connection.request("GET", "/jobs/orders/events", headers={"authorization": f"Bearer {service.token}"})
    response = connection.getresponse()
    first = response.readline() + response.readline()
    service.job.end(JobState.FINISHED)
    rest = response.read()
    connection.close()
    assert first.startswith(b'event: status\ndata: {"job_id":"orders","name":"orders","state":"running"')
    assert b'"state":"finished"' in rest


def test_lines_behind_a_number_are_told(service: Service) -> None:
    service.job.lines = tuple(LogLine(number, 5, "PRINT", "stdout", f"line {number}", "slot-1") for number in (1, 2, 3))
    assert service.client.logs() == list(service.job.lines)
    assert service.client.logs(after=2) == list(service.job.lines[2:])


@pytest.mark.parametrize("after", ["x", "-1", "1.5", "", "99999999999999999999", "%00"])
def test_a_number_that_is_none_is_refused(service: Service, after: str) -> None:
    status, text = service.ask("GET", f"/jobs/orders/logs?after={after}")
    assert (status, json.loads(text)["fact"]) == (400, "the parameter 'after' can't be understood")


def test_the_configuration_is_told(service: Service) -> None:
    assert service.client.configuration() == {"parallelism": 2}


def test_a_parameter_is_described(service: Service) -> None:
    described = json.loads(service.ask("GET", "/openapi.json")[1])["paths"][f"{JOB}/logs"]["get"]["parameters"]
    assert [(each["name"], each["in"], each["required"]) for each in described] == [
        ("job_id", "path", True),
        ("after", "query", False),
    ]
    assert described[1]["schema"] == {"type": "integer", "minimum": 0, "maximum": 2**63 - 1, "default": 0}


def test_whoever_waits_for_a_turn_is_answered_when_the_service_ends(
    service: Service, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    waits = threading.Event()

    def long_delay(self: Pace, **times: float) -> float:
        waits.set()
        return 600.0

    monkeypatch.setattr(Pace, "delay_seconds", long_delay)
    answers: list[int] = []
    asking = threading.Thread(target=lambda: answers.append(service.ask("GET", "/jobs/orders")[0]))
    asking.start()
    assert waits.wait(30)
    service.service.close()
    asking.join()
    assert (answers, caplog.records) == ([200], [])


def test_whoever_watches_the_job_hears_of_its_end_before_the_driver_goes_on(service: Service) -> None:
    connection = http.client.HTTPConnection(urlsplit(service.service.address).netloc, timeout=30)
    connection.request("GET", "/jobs/orders/events", headers={"authorization": f"Bearer {service.token}"})
    response = connection.getresponse()
    response.readline()
    service.job.end(JobState.FINISHED)
    service.service.linger()
    kernel = select.select([response.fp.fileno()], [], [], 0)[0]  # it is here already: nothing has to wait for it
    assert kernel
    assert b'"state":"finished"' in response.read()
    connection.close()


def test_every_route_is_described(service: Service) -> None:
    described = json.loads(service.ask("GET", "/openapi.json")[1])["paths"]
    others = {"/jobs", "/metrics", "/openapi.json", f"{JOB}/events"}
    assert set(described) == {*others, *(JOB + endpoint.path for endpoint in ENDPOINTS)}
    assert described[f"{JOB}/savepoints"]["post"]["requestBody"]["required"]


def test_a_port_that_is_taken_is_named(service: Service) -> None:
    port = urlsplit(service.service.address).port
    with pytest.raises(ConfigurationError, match=f"can't listen at 127.0.0.1:{port}"):
        ControlService(StandInJob(), Control(port=port))


def test_beyond_this_machine_only_with_a_token_of_the_users_own() -> None:
    with pytest.raises(ConfigurationError, match="needs a token of yours"):
        Control(host="0.0.0.0")


def test_a_token_is_in_no_text(service: Service) -> None:
    assert service.token not in repr(service.service.tokens)
    assert service.token not in repr(service.client.registration)

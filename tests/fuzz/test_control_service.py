"""Schemathesis asks the control service everything that its description allows, and what it doesn't."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from tests.unit.serving.stand_in import StandInJob
from tests.unit.telemetry.statuses import full_status

from cutwater.config import Control
from cutwater.protocol.lifecycle import JobState
from cutwater.serving.openapi import description
from cutwater.serving.service import ControlService

#: Every one is a request, and some ask twice more: without a token, and with a wrong one.
EXAMPLES = min(int(os.environ.get("FUZZ_EXAMPLES", "12")), 1_000)
TOKEN = "everything-is-allowed"


class Undying(StandInJob):
    """Whatever is asked of it, it goes on."""

    def __init__(self) -> None:
        super().__init__()
        self.now = full_status()

    def end(self, state: JobState) -> None:
        """Not this one."""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlService]:
    file = tmp_path_factory.mktemp("control") / "token"
    file.write_text(TOKEN)
    made = ControlService(Undying(), Control(token_file=str(file)))
    yield made
    made.close()


def described() -> dict[str, Any]:
    """With the ids of a job that is here, and of one that isn't."""
    found = description()
    for operation in (one for path in found["paths"].values() for one in path.values()):
        for parameter in operation["parameters"]:
            if parameter["name"] == "job_id":
                parameter["schema"] = {"enum": ["orders", "others"]}
    return found


#: Without the events: they have no end.
schema = schemathesis.openapi.from_dict(described()).exclude(path_regex="/events$")


@schema.auth()
class WithToken:
    """Schemathesis knows what the token is, and asks without it and with a wrong one as well."""

    def get(self, case: schemathesis.Case, context: schemathesis.AuthContext) -> str:
        return TOKEN

    def set(self, case: schemathesis.Case, data: str, context: schemathesis.AuthContext) -> None:
        case.headers["Authorization"] = f"Bearer {data}"


@schema.parametrize()
@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
def test_whatever_is_asked_the_answer_is_as_described(case: schemathesis.Case, service: ControlService) -> None:
    case.call_and_validate(base_url=service.address)

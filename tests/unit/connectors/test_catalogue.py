"""Does the catalogue tell the truth of what there is?"""

import pytest

from cutwater.connectors import sinks, sources
from cutwater.connectors.catalogue import CONNECTORS, Connector


@pytest.mark.parametrize("connector", CONNECTORS, ids=lambda connector: f"{connector.end}s.{connector.name}")
def test_every_connector_is_there_whether_its_client_is_installed_or_not(connector: Connector) -> None:
    assert callable(connector.load())


@pytest.mark.parametrize(("end", "module"), [("source", sources), ("sink", sinks)])
def test_the_public_names_are_those_of_the_catalogue(end: str, module: object) -> None:
    assert sorted(module.__all__) == sorted(each.name for each in CONNECTORS if each.end == end)  # type: ignore[attr-defined]


def test_an_unknown_name_lists_what_there_is() -> None:
    with pytest.raises(AttributeError, match=r"there is no sink 'kafkaa'; there are .*kafka, "):
        sinks.kafkaa  # noqa: B018


def test_a_client_that_is_not_installed_is_said_to_be_missing() -> None:
    assert not Connector("x", "sink", "x", "none", "x", "no_such_client").is_installed

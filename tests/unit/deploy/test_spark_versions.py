"""Which Spark is refused, and which is only warned about?"""

from __future__ import annotations

import pytest

from cutwater.deploy.spark_versions import (
    NEWEST,
    OLDEST,
    READ_LIMITS,
    is_newer_than_tested,
    newest_java,
    number_of,
    refuse_too_old,
    refuse_without,
)
from cutwater.errors import ConfigurationError


def text(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}.1"


@pytest.mark.parametrize("version", ["4.10.2", "4.10", "4.10.0-amzn-1", "4.10.0.dev3"])
def test_the_first_two_numbers_of_a_version_count(version: str) -> None:
    assert number_of(version) == (4, 10)


def test_a_version_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="'master' is no version of Spark"):
        number_of("master")


def test_a_spark_that_is_too_old_is_refused_with_those_that_are_not() -> None:
    with pytest.raises(ConfigurationError, match="Cutwater needs Spark") as raised:
        refuse_too_old("3.4.4", "the installed PySpark")
    assert raised.value.detail == "the installed PySpark is 3.4.4"
    assert f"{NEWEST[0]}.{NEWEST[1]}" in raised.value.hint


@pytest.mark.parametrize("version", [OLDEST, NEWEST, (NEWEST[0] + 1, 0)])
def test_others_are_not(version: tuple[int, int]) -> None:
    refuse_too_old(text(version), "this Spark")


def test_only_a_newer_one_than_we_know_is_newer() -> None:
    assert is_newer_than_tested(text((NEWEST[0], NEWEST[1] + 1)))
    assert not is_newer_than_tested(text(NEWEST))


@pytest.mark.parametrize(("version", "newest"), [("3.5.9", 21), ("4.0.5", 21), ("4.1.0", None)])
def test_older_versions_do_not_run_on_the_newest_java(version: str, newest: int | None) -> None:
    assert newest_java(version) == newest


def test_a_feature_of_newer_versions_is_refused_by_name() -> None:
    with pytest.raises(ConfigurationError, match=r"latestOffset.* needs Spark 4\.2 or newer"):
        refuse_without(READ_LIMITS, "4.1.3")
    refuse_without(READ_LIMITS, "4.2.0")

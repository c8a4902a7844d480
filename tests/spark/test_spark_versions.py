"""Does the oldest Spark that we promise run jobs? `make test-spark-versions` tests all versions, and more."""

from __future__ import annotations

import os

import pytest

import cutwater as cw
from cutwater.deploy.session import installed_version
from cutwater.deploy.spark_versions import DATA_SOURCES, NEWEST, OLDEST, number_of

from .spark_versions import BRIEF, VERSIONS, outcomes, python_of

OLDEST_TEXT = VERSIONS[0]


def test_the_versions_that_are_tested_are_those_that_are_promised() -> None:
    tested = [tuple(map(int, version.split("."))) for version in VERSIONS]
    assert (tested[0], tested[-1]) == (OLDEST, NEWEST)


def test_a_data_source_is_refused_by_a_spark_that_has_none() -> None:
    if number_of(installed_version()) >= DATA_SOURCES.since:
        pytest.skip("this one has them")
    with pytest.raises(cw.errors.ConfigurationError, match=r"a Python data source needs Spark 4\.0 or newer"):
        cw.sources.spark_data_source(type("Ranges", (), {}))


@pytest.mark.timeout(900)
def test_jobs_run_exactly_once_on_the_oldest_spark() -> None:
    if python_of(OLDEST_TEXT) is None:
        reason = f"no Spark {OLDEST_TEXT}: run python -m tests.spark.spark_versions --install --oldest"
        if os.environ.get("CUTWATER_REQUIRE_SERVERS") == "1":
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    assert outcomes(OLDEST_TEXT, BRIEF) == dict.fromkeys(BRIEF, "passed")

"""On which versions of Spark does Cutwater run, and what do the older ones lack?

What we know of versions is here, and nowhere else: `tests/spark/spark_versions.py` tests it, and
docs/spark-versions.md says it in a table. The module doesn't import pyspark.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from cutwater.errors import ConfigurationError

Version = tuple[int, int]
"""4.0 and 4.0.5 are alike to us."""

OLDEST: Version = (3, 5)
NEWEST: Version = (4, 3)
"""That is tested. A newer one is given a try, with a warning."""
SUPPORTED = f"{OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]}"


@dataclass(frozen=True, slots=True)
class Feature:
    """What not all of these versions have."""

    name: str
    since: Version


DATA_SOURCES = Feature("a Python data source", since=(4, 0))
CONNECT = Feature("a job on Spark Connect", since=(4, 0))
READ_LIMITS = Feature("latestOffset(start, limit) of a data source", since=(4, 2))


def number_of(version: str) -> Version:
    """Of "4.0.5", or of what vendors and developers make of it: "4.1.0-amzn-0", "4.3.0.dev1"."""
    match = re.match(r"(\d+)\.(\d+)", version)
    if match is None:
        raise ConfigurationError(f"{version!r} is no version of Spark", hint=_HINT)
    return int(match[1]), int(match[2])


def refuse_too_old(version: str, where: str) -> None:
    """Raises `ConfigurationError`. `where` is the subject of a sentence, e.g. "the installed PySpark"."""
    if number_of(version) < OLDEST:
        raise ConfigurationError(
            f"Cutwater needs Spark {_text(OLDEST)} or newer", detail=f"{where} is {version}", hint=_HINT
        )


def newest_java(version: str) -> int | None:
    """That it runs on; None: no newer one is known to fail. Java has taken away what Hadoop calls in older versions."""
    return 21 if number_of(version) < (4, 1) else None


def is_newer_than_tested(version: str) -> bool:
    return number_of(version) > NEWEST


def refuse_without(feature: Feature, version: str) -> None:
    """Raises `ConfigurationError` if this version lacks it."""
    if number_of(version) < feature.since:
        raise ConfigurationError(
            f"{feature.name} needs Spark {_text(feature.since)} or newer", detail=f"this one is {version}"
        )


def _text(version: Version) -> str:
    return f"{version[0]}.{version[1]}"


_HINT = f"Cutwater runs on Spark {SUPPORTED}, see docs/spark-versions.md"

"""How do connectors reach what only the deployment may import?"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from cutwater.errors import ConfigurationError


def bridge() -> Any:
    """`cutwater.deploy.data_sources`: late, and by name, since a job that doesn't use PySpark need not have it."""
    return import_module("cutwater.deploy.data_sources")


def checked_class(data_source: Any) -> type:
    """Refuses what can't be a data source."""
    if not isinstance(data_source, type):
        raise ConfigurationError(
            "a data source is given as its class",
            detail=f"it is {data_source!r}",
            hint="pass the class that you would register with spark.dataSource.register(…)",
        )
    return data_source

"""`cutwater version`: which versions meet here?"""

from __future__ import annotations

import json
import platform
from importlib.metadata import version as version_of

import typer

from cutwater.cli.showing import AsJson
from cutwater.deploy.spark_versions import SUPPORTED


def version(*, as_json: AsJson = False) -> None:
    """The versions of Cutwater and of what it runs on."""
    if as_json:
        known = {name: version_of(name) for name in ("cutwater", "pyspark", "pyarrow")}
        typer.echo(json.dumps({**known, "python": platform.python_version()}))
        return
    typer.echo(f"cutwater {version_of('cutwater')}")
    typer.echo(f"python {platform.python_version()}, pyspark {version_of('pyspark')}, pyarrow {version_of('pyarrow')}")
    typer.echo(f"runs on Spark {SUPPORTED}")

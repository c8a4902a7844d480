"""`cutwater version`: which versions meet here?"""

from __future__ import annotations

import platform
from importlib.metadata import version as version_of

import typer


def version() -> None:
    """The versions of Cutwater and of what it runs on."""
    typer.echo(f"cutwater {version_of('cutwater')}")
    typer.echo(f"python {platform.python_version()}, pyspark {version_of('pyspark')}, pyarrow {version_of('pyarrow')}")

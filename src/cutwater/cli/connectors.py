"""`cutwater connectors`: what there is, what each gives, and what is installed."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table


def connectors(
    as_json: Annotated[bool, typer.Option("--json", help="one JSON document instead of a table")] = False,
) -> None:
    """Lists the sources and sinks, with the guarantee that each gives at best and the extra that it needs."""
    from cutwater.connectors.catalogue import CONNECTORS

    if as_json:
        rows = [
            {
                "name": f"{connector.end}s.{connector.name}",
                "guarantee": connector.guarantee,
                "extra": connector.extra or None,
                "installed": connector.is_installed,
            }
            for connector in CONNECTORS
        ]
        typer.echo(json.dumps(rows, indent=2))
        return
    table = Table("connector", "guarantee at best", "needs", box=None, header_style="bold", pad_edge=False)
    for connector in CONNECTORS:
        needs = f"cutwater\\[{connector.extra}]" if connector.extra else ""
        state = "" if not needs else f"{needs}, installed" if connector.is_installed else f"[yellow]{needs}, missing[/]"
        table.add_row(f"{connector.end}s.{connector.name}", connector.guarantee, state)
    Console().print(table)

"""Which commands are there, and where does a failure of any of them end?

Each command is a thin file that imports what it needs when it runs: `cutwater --help` starts neither Arrow nor Spark.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperGroup

from cutwater.cli import failures, jobs, state
from cutwater.cli.connectors import connectors
from cutwater.cli.dashboard import dashboard
from cutwater.cli.demo import demo
from cutwater.cli.doctor import doctor
from cutwater.cli.logs import logs
from cutwater.cli.run import RunCommand, run
from cutwater.cli.simulate import simulate
from cutwater.cli.top import top
from cutwater.cli.version import version
from cutwater.cli.warm_up import warm_up


class _ShowsFailures(TyperGroup):
    """The one place where exceptions become words and exit codes."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (typer.TyperException, typer.Exit, typer.Abort):
            raise  # typer's own way to report a wrong option or to end
        except Exception as error:
            verbose = bool((ctx.obj or {}).get("verbose"))
            failures.show(error, Console(stderr=True, highlight=False), verbose=verbose)
            raise typer.Exit(failures.exit_code(error)) from error


app = typer.Typer(
    name="cutwater",
    cls=_ShowsFailures,
    help="Stateful streams on Spark that survive any crash, exactly once.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@app.callback()
def options(
    context: typer.Context,
    *,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show stack traces, those of the JVM included.")] = False,
) -> None:
    context.obj = {"verbose": verbose}


app.command(name="list")(jobs.list_jobs)
for command in (
    jobs.status,
    jobs.checkpoints,
    jobs.exceptions,
    jobs.checkpoint,
    jobs.savepoint,
    jobs.stop,
    jobs.cancel,
    jobs.rescale,
):
    app.command()(command)
app.command()(top)
app.command()(logs)
app.command()(connectors)
app.command()(dashboard)
app.command()(demo)
app.command()(doctor)
app.command(cls=RunCommand)(run)
app.command()(simulate)
app.add_typer(state.app, name="state")
app.command()(version)
app.command()(warm_up)

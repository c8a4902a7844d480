"""`cutwater run`: runs a user's script, with the options that the command line gives, where it says."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperCommand

from cutwater.cli.completing import setting_keys
from cutwater.errors import ConfigurationError, UserError

if TYPE_CHECKING:
    from cutwater.api.overrides import Overrides


class RunCommand(TyperCommand):
    """Options may stand before the script, or directly behind it; what follows belongs to the script.

    What comes behind `--` does in any case, and so does a `--help` behind the script.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        own = {
            name: not getattr(parameter, "is_flag", False)
            for parameter in self.params
            if parameter.param_type_name == "option"
            for name in (*parameter.opts, *parameter.secondary_opts)
        }
        found: list[str] = super().parse_args(ctx, split_arguments(args, own))
        return found


def split_arguments(arguments: list[str], own: dict[str, bool]) -> list[str]:
    """The same in an order that leaves no doubt: options, `--`, script, its arguments.

    `own`: the names of our options, and whether a value follows.
    """
    options: list[str] = []
    rest = list(arguments)
    script: str | None = None
    while rest:
        name, equals, _ = rest[0].partition("=")
        if name in own:
            taken = 2 if own[name] and not equals else 1
            options, rest = options + rest[:taken], rest[taken:]
        elif script is not None or rest[0] == "--":
            rest = rest[1:] if rest[0] == "--" else rest
            break
        elif name.startswith("-"):
            options, rest = [*options, rest[0]], rest[1:]  # refused later, or --help
        else:
            script, rest = rest[0], rest[1:]
    return [*options, "--", *([] if script is None else [script]), *rest]


def run(
    context: typer.Context,
    script: Annotated[Path, typer.Argument(help="A Python file that builds a job and executes it.")],
    arguments: Annotated[list[str] | None, typer.Argument(help="Handed to the script as sys.argv[1:].")] = None,
    *,
    restore: Annotated[
        str | None,
        typer.Option(help='"latest", the path of a savepoint or checkpoint, or "none" to start empty.', metavar="PATH"),
    ] = None,
    parallelism: Annotated[int | None, typer.Option(min=1, help="Tasks per operator.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="An option of the job, as in checkpoints.every=5s. Can be repeated.",
            autocompletion=setting_keys,
        ),
    ] = None,
    master: Annotated[
        str | None, typer.Option(help="The Spark to run on: local[4], spark://host:7077, yarn, k8s://…")
    ] = None,
    remote: Annotated[str | None, typer.Option(help="A Spark Connect server: sc://host.")] = None,
    submit: Annotated[
        str | None, typer.Option(help='Options of spark-submit, as one text: "--conf spark.executor.memory=4g".')
    ] = None,
    detach: Annotated[
        bool, typer.Option("--detach", help="Go on in the background; return when the job is there.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --detach: JSON, for programs.")] = False,
    no_progress: Annotated[bool, typer.Option("--no-progress", help="No live view of the job.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show stack traces, those of the JVM included.")] = False,
) -> None:
    """Runs a script as `python script.py` would, with failures made readable and options of your own.

    Options stand before the script or directly behind it; behind `--` everything belongs to the script. They count more
    than what the script says.

    Exits with 0 when the script does, 1 when it failed, 2 when the job itself must change, or as the script says.
    """
    if verbose:
        context.obj["verbose"] = True
    if not script.is_file():
        raise UserError(f'there is no script "{script}"', hint="give the path of a Python file")
    given = [f"parallelism={parallelism}", *(settings or [])] if parallelism is not None else list(settings or [])
    orders = _orders(given, restore=restore, master=master, remote=remote, submit=submit)
    if detach:
        from cutwater.cli.detaching import run_detached

        options = _options_again(given, restore=restore, master=master, remote=remote, submit=submit, verbose=verbose)
        run_detached([*options, "--", str(script), *(arguments or [])], script.stem, orders.options, as_json=as_json)
        return
    if as_json:
        raise UserError("--json goes with --detach", hint="a script in the foreground prints what it likes")
    _tell(given, restore)
    sys.argv[:] = [str(script), *(arguments or [])]
    # As `python script.py` does: the script can import its neighbours.
    sys.path.insert(0, str(script.resolve().parent))
    with _ordered(orders), _shown(wanted=not no_progress):
        runpy.run_path(str(script), run_name="__main__")
    if (given or restore is not None) and not orders.used:
        _say("the script has made no Environment: what the command line sets had no effect")


def _orders(
    settings: list[str], *, restore: str | None, master: str | None, remote: str | None, submit: str | None
) -> Overrides:
    from cutwater.api.overrides import Overrides, Target, parse_settings

    if remote is not None and (master is not None or submit is not None):
        raise ConfigurationError(
            "a session has one place",
            detail="--remote is a server that has its own master",
            hint="leave one of them out",
        )
    target = Target(master, remote, submit) if (master, remote, submit) != (None, None, None) else None
    return Overrides(parse_settings(settings), restore, target)


@contextmanager
def _ordered(orders: Overrides) -> Iterator[None]:
    from cutwater.api.overrides import overridden_by

    with overridden_by(orders):
        if orders.target is None:
            yield
            return
        from cutwater.deploy.targets import session_defaults

        with session_defaults(orders.target):
            yield


@contextmanager
def _shown(*, wanted: bool) -> Iterator[None]:
    """A live view of the script's jobs, for a person at a terminal."""
    console = Console(stderr=True)
    if not wanted or not sys.stderr.isatty() or console.is_dumb_terminal:
        yield
        return
    from cutwater.api.launching import launches_told_to
    from cutwater.terminal.foreground import ForegroundView

    with ForegroundView(console) as view, launches_told_to(view.show):
        yield


def _options_again(
    settings: list[str],
    *,
    restore: str | None,
    master: str | None,
    remote: str | None,
    submit: str | None,
    verbose: bool,
) -> list[str]:
    named = {"--restore": restore, "--master": master, "--remote": remote, "--submit": submit}
    given = [f"{name}={value}" for name, value in named.items() if value is not None]
    return [*given, *(f"--set={each}" for each in settings), "--no-progress", *(["--verbose"] if verbose else [])]


def _tell(settings: list[str], restore: str | None) -> None:
    told = [*settings, *([] if restore is None else [f"restore={restore}"])]
    if told:
        _say(f"the command line sets {', '.join(told)}")


def _say(words: str) -> None:
    Console(stderr=True, highlight=False).print(f"cutwater: {words}", markup=False, soft_wrap=True)

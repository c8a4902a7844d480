"""What does a person see of a failure, and which exit code does a script see?

A CutwaterError shows its fact, detail and hint; when a user's function is the cause, that comes first. A failure inside
Spark's JVM shrinks to one line. Anything else is a surprise and keeps its traceback. `--verbose` shows everything.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from enum import IntEnum

from rich.console import Console
from rich.text import Text

from cutwater.errors import CutwaterError, InternalError, UserError, UserFunctionError


class ExitCode(IntEnum):
    """0 is success, 130 is Ctrl-C; a script run by `cutwater run` may exit with a code of its own."""

    FAILED = 1
    """The operator of the job must act, or the failure was not foreseen."""
    USER_MUST_ACT = 2
    """The job or the command line must change; a retry won't help."""
    BUG = 70
    """An invariant of Cutwater's own is broken."""


def exit_code(error: BaseException) -> ExitCode:
    causes = list(causes_of(error))
    if any(isinstance(cause, InternalError) for cause in causes):
        return ExitCode.BUG
    if any(isinstance(cause, UserError) for cause in causes):
        return ExitCode.USER_MUST_ACT
    return ExitCode.FAILED


def show(error: BaseException, console: Console, *, verbose: bool) -> None:
    """Writes the failure to the console, which should be standard error."""
    if verbose:
        console.print(Text("".join(traceback.format_exception(error)).rstrip()), soft_wrap=True)
        return
    for text in explain(error):
        console.print(text, soft_wrap=True)


def explain(error: BaseException) -> list[Text]:
    """The failure in as few lines as tell a person what to do."""
    ours = [cause for cause in causes_of(error) if isinstance(cause, CutwaterError)]
    if ours:
        # The most useful thing first: what the user's own code did; then what that led to.
        ours.sort(key=lambda cause: not isinstance(cause, UserFunctionError))
        texts = [_three_lines(cause, style="bold red" if index == 0 else "dim") for index, cause in enumerate(ours)]
        return [*texts, _how_to_see_more()] if isinstance(ours[0], InternalError) else texts
    for cause in causes_of(error):
        if comes_from_spark(cause):
            return [Text(f"Spark failed: {one_line(cause)}", style="bold red"), _how_to_see_more()]
    return [Text("".join(traceback.format_exception(_from_the_script_on(error))).rstrip())]


def causes_of(error: BaseException) -> Iterator[BaseException]:
    """The error, what caused it, what caused that, …"""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)


def comes_from_spark(error: BaseException) -> bool:
    """Asked by name, so that showing an error never imports pyspark."""
    packages = {kind.__module__.partition(".")[0] for kind in type(error).__mro__}
    return bool(packages & {"py4j", "pyspark"})


def one_line(error: BaseException) -> str:
    """A JVM error without its stack trace: the exception's own words, or those of the Python worker behind it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    if any(line.startswith("Traceback (most recent call last)") for line in lines):
        return _last_python_error(lines)
    # py4j: "An error occurred while calling o44.collect." and then ": java.lang.SomeException: what happened".
    java = next((line.removeprefix(":").strip() for line in lines if line.startswith(":")), lines[0])
    kind, colon, words = java.partition(": ")
    return f"{kind.rpartition('.')[2]}: {words}" if colon and " " not in kind else java


def _last_python_error(lines: list[str]) -> str:
    start = max(index for index, line in enumerate(lines) if line.startswith("Traceback (most recent call last)"))
    for line in lines[start + 1 :]:
        kind, colon, _ = line.partition(":")
        if colon and not line.startswith("File ") and kind.replace(".", "").replace("_", "").isalnum():
            return line
    return lines[0]


def _three_lines(error: CutwaterError, *, style: str) -> Text:
    fact, *rest = str(error).splitlines() or [type(error).__name__]
    text = Text(fact, style=style)
    for line in rest:
        text.append("\n" + line, style="dim")
    return text


def _how_to_see_more() -> Text:
    return Text("  hint:   --verbose shows the whole stack trace", style="dim")


def _from_the_script_on(error: BaseException) -> BaseException:
    """Drops the frames before the user's script: those of the command line and of runpy."""
    frame, last_of_runpy = error.__traceback__, None
    while frame is not None:
        if frame.tb_frame.f_globals.get("__name__") == "runpy":
            last_of_runpy = frame
        frame = frame.tb_next
    return error.with_traceback(last_of_runpy.tb_next) if last_of_runpy and last_of_runpy.tb_next else error

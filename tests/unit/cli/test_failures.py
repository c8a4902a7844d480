"""What a person sees of a failure."""

from __future__ import annotations

import pytest

from cutwater.cli.failures import ExitCode, causes_of, exit_code, explain, one_line
from cutwater.errors import (
    GraphError,
    InternalError,
    JobFailedError,
    SlotsMissingError,
    StorageError,
    UserFunctionError,
)


class Py4JJavaError(Exception):
    """Looks like py4j's error without py4j."""

    __module__ = "py4j.protocol"


JAVA_TRACE = """An error occurred while calling o44.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 failed 4 times
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:3117)
\tat java.base/java.lang.Thread.run(Thread.java:840)
Caused by: java.io.EOFException
\t... 1 more
"""

WORKER_TRACE = """An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "job.py", line 3, in <lambda>
    stream.map(lambda x: 1 // x)
ZeroDivisionError: integer division or modulo by zero
"""


def raised(error: BaseException, cause: BaseException | None = None) -> BaseException:
    try:
        raise error from cause
    except BaseException as caught:
        return caught


def shown(error: BaseException) -> str:
    return "\n".join(text.plain for text in explain(error))


def test_an_error_of_ours_shows_fact_detail_and_hint_and_no_traceback() -> None:
    error = raised(StorageError("chk-7 can't be written", detail="disk full", hint="make room"))
    assert shown(error) == "chk-7 can't be written\n  detail: disk full\n  hint:   make room"


def test_the_fact_is_red_and_the_rest_is_dim() -> None:
    [text] = explain(StorageError("fact", detail="detail"))
    assert (str(text.style), [str(span.style) for span in text.spans]) == ("bold red", ["dim"])


def test_the_users_own_failure_comes_before_what_it_led_to() -> None:
    failed = raised(
        JobFailedError("job failed after 3 restarts"), cause=UserFunctionError("map raised", detail="a.py:3")
    )
    assert shown(failed) == "map raised\n  detail: a.py:3\njob failed after 3 restarts"


def test_markup_in_a_message_is_shown_as_it_is() -> None:
    assert shown(GraphError("no column [red]")) == "no column [red]"


def test_a_java_error_shrinks_to_one_line_and_says_how_to_see_more() -> None:
    assert shown(raised(Py4JJavaError(JAVA_TRACE))) == (
        "Spark failed: SparkException: Job aborted due to stage failure: Task 0 failed 4 times\n"
        "  hint:   --verbose shows the whole stack trace"
    )


def test_a_java_error_behind_one_of_ours_is_not_shown() -> None:
    failed = raised(SlotsMissingError("2 of 4 slots"), cause=Py4JJavaError(JAVA_TRACE))
    assert shown(failed) == "2 of 4 slots"


def test_an_error_of_a_python_worker_shrinks_to_its_last_line() -> None:
    assert one_line(Py4JJavaError(WORKER_TRACE)) == "ZeroDivisionError: integer division or modulo by zero"


def test_an_error_without_words_shows_its_name() -> None:
    assert one_line(Py4JJavaError()) == "Py4JJavaError"


def test_a_surprise_keeps_its_traceback() -> None:
    assert shown(raised(KeyError("x"))).startswith("Traceback (most recent call last):")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (StorageError("x"), ExitCode.FAILED),
        (GraphError("x"), ExitCode.USER_MUST_ACT),
        (raised(JobFailedError("x"), cause=UserFunctionError("y")), ExitCode.USER_MUST_ACT),
        (raised(JobFailedError("x"), cause=InternalError("y")), ExitCode.BUG),
        (ValueError("x"), ExitCode.FAILED),
    ],
)
def test_the_exit_code_says_who_must_act(error: BaseException, code: ExitCode) -> None:
    assert exit_code(error) == code


def test_a_cause_that_points_back_ends_the_chain() -> None:
    first, second = ValueError("1"), ValueError("2")
    first.__cause__, second.__cause__ = second, first
    assert list(causes_of(first)) == [first, second]

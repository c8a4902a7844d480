"""How do a job and its streams show themselves?"""

from __future__ import annotations

import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import cutwater as cw
from cutwater.api.cards import Rates, _keep_up, card, sparkline
from cutwater.protocol.lifecycle import JobState
from cutwater.status import CheckpointStatus, FailureStatus, JobStatus

from .launchers import FakeLauncher

RUNNING = JobStatus("words-1", "<words>", JobState.RUNNING, attempt=2, restarts=1)


def checkpoint(number: int, seconds: float, outcome: str = "completed") -> CheckpointStatus:
    return CheckpointStatus(number, "checkpoint", 1, outcome, seconds, size_bytes=2048)


def test_a_card_tells_state_rates_checkpoints_and_attempts() -> None:
    status = replace(RUNNING, checkpoints=(checkpoint(1, 0.1), checkpoint(2, 0.3)), checkpoints_completed=2)
    html = card(status, [10.0, 20.0])
    for words in ("&lt;words&gt;", "running, attempt 2", "records/s read", "2 checkpoints", "1 restart"):
        assert words in html
    assert html.count("<polyline") == 2
    assert "<script" not in html
    assert "<words>" not in html


def test_a_card_of_a_failed_job_says_why() -> None:
    html = card(replace(RUNNING, state=JobState.FAILED, failure=FailureStatus("UserError", "a < b", hint="mind")))
    assert "a &lt; b" in html
    assert "mind" in html


def test_a_line_goes_from_the_lower_to_the_upper_edge() -> None:
    assert 'points="0.0,30.0 110.0,16.0 220.0,2.0"' in sparkline([0, 1, 2], "#000")
    assert "points" in sparkline([], "#000")
    assert 'points="0.0,30.0 220.0,30.0"' in sparkline([0, 0], "#000")


def test_a_card_follows_the_job_to_its_end() -> None:
    finished = replace(RUNNING, state=JobState.FINISHED)
    statuses = iter([RUNNING, finished, finished])
    cards: list[str] = []
    _keep_up(lambda: next(statuses), Rates(), cards.append, wait=lambda seconds: None)
    assert ["finished" in each for each in cards] == [False, True, True]


def test_a_handle_is_a_card_without_a_notebook_and_text_on_a_console(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))
    env = cw.Environment(launcher=FakeLauncher())
    env.from_collection([1]).sink_to(cw.sinks.discard())
    job = env.submit("words")
    assert "words" in job._repr_html_()
    job._ipython_display_()
    assert capsys.readouterr().out == "JobHandle('words', job_id='words')\n"


def test_a_chart_of_checkpoints_needs_some_and_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    from cutwater.api.plots import checkpoint_chart

    figure = checkpoint_chart([checkpoint(1, 0.1), checkpoint(2, 0.2, "expired")], title="words")
    assert figure._repr_png_().startswith(b"\x89PNG")
    assert [len(axes.patches) for axes in figure.axes] == [2, 4]
    with pytest.raises(cw.errors.ConfigurationError, match="no checkpoint yet"):
        checkpoint_chart([], title="words")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(cw.errors.ConfigurationError, match=r"(?s)Matplotlib.*cutwater\[plots\]"):
        checkpoint_chart([checkpoint(1, 0.1)], title="words")


def test_streams_say_what_they_are_and_where_they_were_written() -> None:
    env = cw.Environment(launcher=FakeLauncher())
    stream: Any = env.from_collection([("a", 1)], uid="in")
    typed = stream.with_schema(pa.schema([("k", pa.string()), ("n", pa.int64())]), uid="typed")
    assert repr(stream).startswith('<DataStream of collection(1 values) "in" at test_cards.py:')
    assert repr(typed).endswith("columns: k string, n int64>")
    assert repr(typed.key_by("k")).startswith("<KeyedStream by k: <DataStream of with_schema")
    assert repr(typed.key_by("k").window(cw.count_window(2))).startswith("<WindowedStream, count windows by k:")
    assert "side output" in repr(typed.process(lambda record, context: context.side_output("x", 1)).side_output("x"))


def test_a_stream_is_a_picture_of_the_plan_up_to_here() -> None:
    env = cw.Environment(launcher=FakeLauncher())
    stream = env.from_collection([1], uid="in").map(str, uid="texts")
    stream.map(len, uid="later")
    html = stream._repr_html_()
    assert "<svg" in html
    assert "texts" in html
    assert "later" not in html


def test_a_result_is_one_line() -> None:
    result = cw.JobResult(replace(RUNNING, state=JobState.FINISHED), 1.5)
    assert repr(result).startswith('<JobResult: job "<words>": finished after 1.5 s')

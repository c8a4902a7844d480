"""How does a job look in a notebook?

As a small card: HTML and SVG without scripts, so that it shows wherever a notebook does. While the job runs, a thread
draws the card again every second.
"""

from __future__ import annotations

import importlib
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from html import escape
from typing import Any

from cutwater.protocol.lifecycle import JobState
from cutwater.status import JobStatus
from cutwater.terminal import figures
from cutwater.terminal.text import checkpoint_line, flow_line, headline, summary

_EVERY_SECONDS = 1.0
#: Programs that run notebooks drop what arrives between two cells: the last card is drawn again, for them.
_LAST_CARDS = 2
_POINTS_MAX = 120
_WIDTH, _HEIGHT = 220, 32
_COLOURS = {
    JobState.RUNNING: "#2a7f76",
    JobState.FINISHED: "#2a7f76",
    JobState.FAILED: "#c0392b",
    JobState.RESTARTING: "#b7791f",
    JobState.CANCELLED: "#5a6b7f",
}


class Rates:
    """How many records per second were read, look by look. Used by one thread."""

    def __init__(self) -> None:
        self._points: deque[float] = deque(maxlen=_POINTS_MAX)

    def look(self, status: JobStatus) -> list[float]:
        """All so far, this one included."""
        if status.tasks:
            self._points.append(figures.rate_read(status))
        return list(self._points)


def card(status: JobStatus, rates: Sequence[float] = ()) -> str:
    """One job at one moment, as HTML."""
    colour = _COLOURS.get(status.state, "#5a6b7f")
    durations = [each.duration_seconds for each in status.checkpoints if each.completed]
    flow = summary(status, status.running_seconds) if status.state.terminal else flow_line(status)
    lines = [escape(flow), escape(checkpoint_line(status))]
    if status.waiting_for:
        lines.insert(0, f"waiting for {escape(status.waiting_for)}")
    if status.failure is not None:
        lines.append(f'<span style="color:#c0392b;white-space:pre-wrap">{escape(str(status.failure))}</span>')
    lines += [f"warning: {escape(warning)}" for warning in status.warnings[-3:]]
    return (
        '<div style="font:13px/1.5 system-ui,sans-serif;border:1px solid #c3ccd6;border-radius:8px;padding:10px 14px;'
        f'max-width:560px;border-left:5px solid {colour}">'
        f'<div><b>{escape(status.name)}</b> <span style="color:{colour}">{escape(headline(status))}</span> '
        f'<code style="opacity:.6">{escape(status.job_id)}</code></div>'
        f"{''.join(f'<div>{line}</div>' for line in lines)}"
        f"{_drawn('records/s read', rates, colour)}{_drawn('duration of checkpoints', durations, '#5a6b7f')}"
        "</div>"
    )


def sparkline(values: Sequence[float], colour: str) -> str:
    """A line without axes, from left to right; the lower edge is zero."""
    top = max(values, default=0.0) or 1.0
    step = _WIDTH / max(1, len(values) - 1)
    points = " ".join(
        f"{index * step:.1f},{_HEIGHT - 2 - value / top * (_HEIGHT - 4):.1f}" for index, value in enumerate(values)
    )
    return (
        f'<svg width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">'
        f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/></svg>'
    )


def show_live(status: Callable[[], JobStatus]) -> bool:
    """Shows the card in the notebook that this runs in, and keeps it up to date; False: this is none."""
    ipython = sys.modules.get("IPython")
    if ipython is None or ipython.get_ipython() is None:
        return False
    shows: Any = importlib.import_module("IPython.display")
    rates = Rates()
    now = status()
    shown = shows.display(shows.HTML(card(now, rates.look(now))), display_id=True)
    if shown is not None and not now.state.terminal:
        threading.Thread(
            target=_keep_up,
            args=(status, rates, lambda html: shown.update(shows.HTML(html))),
            name="job-card",
            daemon=True,
        ).start()
    return True


def _keep_up(
    status: Callable[[], JobStatus],
    rates: Rates,
    update: Callable[[str], None],
    wait: Callable[[float], Any] = time.sleep,
) -> None:
    """Until the job has ended."""
    last_cards = 0
    while last_cards < _LAST_CARDS:
        wait(_EVERY_SECONDS)
        now = status()
        last_cards += now.state.terminal
        update(card(now, rates.look(now)))


def _drawn(title: str, values: Sequence[float], colour: str) -> str:
    if len(values) < 2:
        return ""
    return (
        '<div style="display:inline-block;margin:6px 16px 0 0">'
        f'<div style="font-size:11px;opacity:.7">{title}</div>{sparkline(values, colour)}</div>'
    )

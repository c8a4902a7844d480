"""How do the checkpoints of a job look as a chart?"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cutwater.errors import ConfigurationError
from cutwater.status import CheckpointStatus

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def checkpoint_chart(checkpoints: Sequence[CheckpointStatus], *, title: str) -> Figure:
    """Above, how long each took, and of that the longest alignment; below, its size and what of it was new."""
    try:
        from matplotlib.figure import Figure
        from matplotlib.ticker import MaxNLocator
    except ImportError:
        raise ConfigurationError(
            "a chart of checkpoints needs Matplotlib", hint='pip install "cutwater[plots]"'
        ) from None
    if not checkpoints:
        raise ConfigurationError("the job has taken no checkpoint yet", hint="look again after the first")

    class Chart(Figure):
        """Shows itself in any notebook, also in one that was not told to show figures."""

        def _repr_png_(self) -> bytes:
            written = io.BytesIO()
            self.savefig(written, format="png")
            return written.getvalue()

    numbers = [each.checkpoint for each in checkpoints]
    figure = Chart(figsize=(8, 4.5), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    colours = ["#2a7f76" if each.completed else "#c0392b" for each in checkpoints]
    above.bar(numbers, [each.duration_seconds * 1000 for each in checkpoints], color=colours, label="duration")
    alignment = [each.alignment_seconds_max * 1000 for each in checkpoints]
    above.plot(numbers, alignment, color="#b7791f", marker=".", label="longest alignment")
    above.set_ylabel("ms")
    above.legend()
    above.set_title(title)
    below.bar(numbers, [each.size_bytes / 1024 for each in checkpoints], color="#c3ccd6", label="size")
    below.bar(numbers, [each.new_bytes / 1024 for each in checkpoints], color="#5a6b7f", label="newly written")
    below.set_ylabel("kB")
    below.set_xlabel("checkpoint (red: not completed)")
    below.xaxis.set_major_locator(MaxNLocator(integer=True))
    below.legend()
    return figure

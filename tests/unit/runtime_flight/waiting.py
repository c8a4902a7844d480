"""How do tests wait for other threads? Until something holds, and not a moment longer."""

from __future__ import annotations

import time
from collections.abc import Callable

from cutwater.runtime.seams import Element, InputChannel


def wait_until(holds: Callable[[], bool], seconds: float = 10.0) -> bool:
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.001)
    return True


def take(channel: InputChannel, count: int, seconds: float = 10.0) -> list[Element]:
    """The next elements, as many as asked for."""
    taken: list[Element] = []

    def took_all() -> bool:
        while len(taken) < count and (element := channel.poll()) is not None:
            taken.append(element)
        return len(taken) == count

    assert wait_until(took_all, seconds), f"{len(taken)} of {count} elements came"
    return taken

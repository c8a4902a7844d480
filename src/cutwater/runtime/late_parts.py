"""When is a frozen snapshot whole, and what becomes of one that never is?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from cutwater.operators.contract import OperatorSnapshot

States: TypeAlias = Sequence[tuple[str, OperatorSnapshot]]
"""What the operators of a chain froze, by uid."""


def when_whole(states: States, call: Callable[[States], None]) -> None:
    """Calls with the states once all their late parts are known; that may be now. On the loop's thread."""
    whole = list(states)
    missing = {index: state.late for index, (_, state) in enumerate(whole) if state.late is not None}
    if not missing:
        call(whole)
        return

    def known(index: int, part: OperatorSnapshot) -> None:
        operator, state = whole[index]
        whole[index] = operator, state.with_part(part)
        del missing[index]
        if not missing:
            call(whole)

    for index, late in list(missing.items()):
        late.then(partial(known, index))


def discard(states: States) -> None:
    """Releases what was frozen and will not be written."""
    for _, state in states:
        if state.keyed is not None and state.keyed.database is not None:
            state.keyed.database.discard()

"""Is the output of a run what it must be, given the output of one without failures?

| guarantee     | the output must                                    |
|---------------|----------------------------------------------------|
| exactly once  | be the same                                        |
| at least once | hold every record of the other, perhaps more       |
| at most once  | be anything: state starts anew with every restart  |

Records are compared as they print, with the entries of dicts and sets in order: a record needs neither a hash nor an
order. `multiset`: how often a record comes counts. `set`: it doesn't. `ordered`: the order counts too, which needs one
task in the sink and a deterministic order before it. `nothing`: any output will do, as long as the job ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from cutwater.errors import ConfigurationError
from cutwater.protocol.modes import CheckpointMode

SHOWN_MAX = 3
Output = Mapping[str, Sequence[Any]]
"""The records by sink."""


class Comparison(StrEnum):
    MULTISET = "multiset"
    SET = "set"
    ORDERED = "ordered"
    NOTHING = "nothing"


def comparison_of(name: str) -> Comparison:
    try:
        return Comparison(name)
    except ValueError as error:
        raise ConfigurationError(
            f"outputs can't be compared as {name!r}", hint=f"choose one of {', '.join(Comparison)}"
        ) from error


def difference(expected: Output, found: Output, *, mode: CheckpointMode, comparison: Comparison) -> str | None:
    """What is wrong, sink by sink, with the first few records; None: nothing is."""
    if comparison is Comparison.NOTHING or mode is CheckpointMode.NONE:
        return None
    lines = [
        line
        for sink in sorted(expected.keys() | found.keys())
        for line in _of_sink(sink, expected.get(sink, ()), found.get(sink, ()), mode, comparison)
    ]
    return "\n".join(lines) or None


def _of_sink(
    sink: str, expected: Sequence[Any], found: Sequence[Any], mode: CheckpointMode, comparison: Comparison
) -> list[str]:
    wanted, had = list(map(shown, expected)), list(map(shown, found))
    left, right = Counter(wanted), Counter(had)
    if comparison is Comparison.SET:
        left, right = Counter(set(wanted)), Counter(set(had))
    missing, extra = left - right, right - left
    lines = []
    if missing:
        lines.append(f'sink "{sink}" misses {_told(missing)}')
    if extra and mode is not CheckpointMode.AT_LEAST_ONCE:
        lines.append(f'sink "{sink}" has too many: {_told(extra)}')
    if not lines and comparison is Comparison.ORDERED and mode is CheckpointMode.EXACTLY_ONCE and wanted != had:
        index = next(index for index, pair in enumerate(zip(wanted, had, strict=True)) if pair[0] != pair[1])
        lines.append(f'record {index} of sink "{sink}" is {had[index]}, not {wanted[index]}')
    return lines


def _told(records: Counter[str]) -> str:
    told = [record if count == 1 else f"{record} ({count} times)" for record, count in sorted(records.items())]
    more = len(told) - SHOWN_MAX
    return ", ".join(told[:SHOWN_MAX]) + (f" and {more} other records" if more > 0 else "")


def shown(record: Any) -> str:
    """The same text for equal records."""
    match record:
        case dict():
            pairs = sorted((shown(key), shown(value)) for key, value in record.items())
            return "{" + ", ".join(f"{key}: {value}" for key, value in pairs) + "}"
        case set() | frozenset():
            return "{" + ", ".join(sorted(map(shown, record))) + "}"
        case list():
            return "[" + ", ".join(map(shown, record)) + "]"
        case tuple() if type(record) is tuple:
            return "(" + ", ".join(map(shown, record)) + ("," if len(record) == 1 else "") + ")"
        case _:
            return repr(record)

"""Does what was received agree with what was promised?

A pure function over numbers. Whatever a connector promises, it makes nothing up, and it leaves nothing behind; the rest
depends on the guarantee:

| guarantee     | may a number be missing? | may it be there twice? |
|---------------|--------------------------|------------------------|
| exactly once  | no                       | no                     |
| at least once | no                       | yes                    |
| at most once  | yes                      | no                     |
| none          | yes                      | yes                    |

When nothing fails, no number may be missing, whatever the guarantee.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cutwater.graph.guarantees import Guarantee

SHOWN_MAX = 5


@dataclass(frozen=True, slots=True)
class Observation:
    """What a trial has seen from outside."""

    #: How many numbers were sent, from 0 on.
    records: int
    received: Sequence[int]
    #: Prepared, but neither committed nor rolled back, when all was over.
    pending: Sequence[str] = ()
    #: Visible before a checkpoint had completed, of a sink that shows nothing before.
    too_early: Sequence[int] = ()
    #: Something was done to the job, which a weak guarantee allows it to suffer from.
    disturbed: bool = True


def judge(guarantee: Guarantee, seen: Observation) -> tuple[str, ...]:
    """What contradicts the guarantee, a line each; none: it held."""
    received = Counter(seen.received)
    expected = range(seen.records)
    missing = [number for number in expected if number not in received]
    twice = [number for number, times in received.items() if times > 1 and number in expected]
    foreign = [number for number in received if number not in expected]
    may_miss = guarantee in (Guarantee.AT_MOST_ONCE, Guarantee.NONE) and seen.disturbed
    may_repeat = guarantee in (Guarantee.AT_LEAST_ONCE, Guarantee.NONE)
    findings = []
    if missing and not may_miss:
        findings.append(f"{_counted(missing)} missing: {_some(missing)}")
    if twice and not may_repeat:
        findings.append(f"{_counted(twice)} there more than once: {_some(twice)}")
    if foreign:
        findings.append(f"{_counted(foreign)} there that were never sent: {_some(foreign)}")
    if seen.too_early:
        findings.append(f"{_counted(seen.too_early)} visible before the first commit: {_some(seen.too_early)}")
    if seen.pending:
        findings.append(f"{len(seen.pending)} pending stayed behind: {_some(seen.pending)}")
    return tuple(findings)


def repetitions(numbers: Iterable[int]) -> int:
    """How many are there beyond the first of each; a sign that a failure was felt."""
    return sum(times - 1 for times in Counter(numbers).values())


def _counted(numbers: Sequence[int]) -> str:
    return "1 record is" if len(numbers) == 1 else f"{len(numbers):,} records are"


def _some(values: Sequence[int] | Sequence[str]) -> str:
    told = ", ".join(map(str, sorted(values)[:SHOWN_MAX]))
    return f"{told}, …" if len(values) > SHOWN_MAX else told

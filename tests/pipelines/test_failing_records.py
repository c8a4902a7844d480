"""Does every record that fails come out exactly once, when slots are killed and at another parallelism?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import cutwater as cw

from .local import LocalRuns

COUNT = 400


def divided(n: int) -> int:
    return n // (n % 5) * 0 + n


def twice(n: int) -> Iterator[int]:
    yield n
    yield n // (n % 7) * 0 + n


class Numbered:
    """Numbers the records of a key that don't fail; the failure comes after one output and before the state changes."""

    def open(self, context: Any) -> None:
        self._seen = context.value_state("seen", 0)

    def process(self, n: int, context: Any) -> Iterator[tuple[str, int, int]]:
        yield "seen", n % 3, 0
        seen = self._seen.value() + n // (n % 11) * 0 + 1
        self._seen.update(seen)
        yield "numbered", n % 3, seen


def told(letter: cw.DeadLetter) -> tuple[str, int, str]:
    return letter.operator, letter.record, letter.error.partition(":")[0]


def build(env: cw.Environment) -> cw.DataStream:
    source = env.from_source(cw.sources.generator(lambda n: n, count=COUNT), uid="numbers")
    divisible = source.map(divided, on_error="dead_letter", uid="divided")
    doubled = divisible.flat_map(twice, on_error="skip", uid="twice")
    keyed = doubled.key_by(lambda n: n % 3 + 0 // (n % 13), on_error="dead_letter")
    numbered = keyed.process(Numbered(), on_error="dead_letter", uid="numbered")
    letters = [stream.side_output("errors").map(told) for stream in (divisible, keyed, numbered)]
    return numbered.union(*letters)


def expected() -> list[Any]:
    zero = "ZeroDivisionError"
    twice_over = [n for n in range(COUNT) if n % 5 and n % 7 for _ in range(2)]
    keyed = [n for n in twice_over if n % 13]
    good = [n for n in keyed if n % 11]
    letters = [("divided", n, zero) for n in range(COUNT) if not n % 5]
    letters += [("key_by-4", n, zero) for n in twice_over if not n % 13]
    letters += [("numbered", n, zero) for n in keyed if not n % 11]
    numbered = [("numbered", key, n + 1) for key in range(3) for n in range(sum(m % 3 == key for m in good))]
    return sorted(letters + numbered + [("seen", n % 3, 0) for n in good], key=repr)


@pytest.mark.parametrize("backend", ["memory", "rocksdb"])
@pytest.mark.parametrize("seed", range(3))
def test_failing_records_come_out_exactly_once(seed: int, backend: str) -> None:
    runs = LocalRuns(build, seed=seed, state_backend=backend)
    assert sorted(runs.plain(parallelism=2), key=repr) == expected()
    assert sorted(runs.killed(parallelism=2), key=repr) == expected()
    assert sorted(runs.rescaled(2, 3), key=repr) == expected()

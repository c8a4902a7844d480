"""Small jobs without Spark: what a job says about its state, and takes over with it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

import cutwater as cw
from cutwater.testing.harness import LocalLauncher

RECORDS = 60
KEYS = 6


@dataclass
class Account:
    seen: int = 0


class Remember:
    """Counts the records of a key in every kind of state, as objects or as plain numbers."""

    def __init__(self, declared: type | None, *, plain: bool = False) -> None:
        self._declared = declared
        self._make: Any = int if plain else Account

    def open(self, context: Any) -> None:
        self._value = context.value_state("value", type=self._declared)
        self._list = context.list_state("list", type=self._declared)
        self._map = context.map_state("map", type=self._declared)
        self._reduced = context.reducing_state("reduced", lambda old, new: new, type=self._declared)

    def process(self, record: int, context: Any) -> Iterator[tuple[int, int]]:
        made = self._make(record)
        self._value.update(made)
        self._list.update([made])
        self._map.put("item", made)
        self._reduced.add(made)
        yield record % KEYS, 1


def run(launcher: LocalLauncher, function: Remember, *, restore: str | None = None, **options: Any) -> cw.JobResult:
    env = cw.Environment(
        launcher=launcher, checkpoints=cw.Checkpoints(every="10ms", storage="file:///nowhere"), **options
    )
    numbers = env.from_source(cw.sources.generator(int, count=RECORDS, splits=2), uid="numbers")
    remembered = numbers.key_by(lambda number: number % KEYS).process(function, uid="remember")
    remembered.sink_to(cw.sinks.discard(), uid="end")
    return env.execute("state", restore=restore)


@pytest.mark.parametrize("backend", ["memory", "rocksdb"])
def test_pickled_objects_are_warned_of_once_for_each_state(backend: str) -> None:
    warnings = run(LocalLauncher(), Remember(None), parallelism=2, state_backend=backend).status.warnings
    assert len(warnings) == 4, warnings
    for state in ("value", "list", "map", "reduced"):
        assert any(f'state "{state}" of operator "remember"' in text and "Account" in text for text in warnings)


@pytest.mark.parametrize("function", [Remember(Account), Remember(None, plain=True)])
def test_declared_types_and_plain_data_are_not_warned_of(function: Remember) -> None:
    assert run(LocalLauncher(), function).status.warnings == ()


def test_a_restored_job_takes_over_the_number_of_key_groups() -> None:
    launcher = LocalLauncher()
    run(launcher, Remember(Account), parallelism=2, max_parallelism=7)
    assert run(launcher, Remember(Account), parallelism=3, restore="latest").state is cw.JobState.FINISHED


def test_another_number_of_key_groups_is_refused() -> None:
    launcher = LocalLauncher()
    run(launcher, Remember(Account), parallelism=2, max_parallelism=7)
    with pytest.raises(cw.errors.ConfigurationError, match="7 key groups, the job has 16"):
        run(launcher, Remember(Account), parallelism=2, max_parallelism=16, restore="latest")
    with pytest.raises(cw.errors.ConfigurationError, match="parallelism 8, but the state to restore has 7"):
        run(launcher, Remember(Account), parallelism=8, restore="latest")

"""When is the output of a run what it must be?"""

from __future__ import annotations

from typing import Any

import pytest

from cutwater.errors import ConfigurationError
from cutwater.protocol.modes import CheckpointMode
from cutwater.testing.simulation.comparison import Comparison, comparison_of, difference, shown


def compared(
    expected: list[Any],
    found: list[Any],
    mode: CheckpointMode = CheckpointMode.EXACTLY_ONCE,
    comparison: Comparison = Comparison.MULTISET,
) -> str | None:
    return difference({"out": expected}, {"out": found}, mode=mode, comparison=comparison)


def test_order_does_not_count() -> None:
    assert compared([1, 2, 2], [2, 1, 2]) is None


def test_missing_and_extra_records_are_named() -> None:
    assert compared([1, 2], [2, 3]) == 'sink "out" misses 1\nsink "out" has too many: 3'


def test_only_the_first_few_are_shown() -> None:
    assert compared(list(range(9)), []) == 'sink "out" misses 0, 1, 2 and 6 other records'


def test_repetition_counts_in_a_multiset_but_not_in_a_set() -> None:
    assert compared([1], [1, 1]) == 'sink "out" has too many: 1'
    assert compared([1], [1, 1], comparison=Comparison.SET) is None


def test_at_least_once_allows_more_but_not_less() -> None:
    assert compared([1, 2], [1, 1, 2], CheckpointMode.AT_LEAST_ONCE) is None
    assert compared([1, 2], [1, 1], CheckpointMode.AT_LEAST_ONCE) == 'sink "out" misses 2'


def test_without_checkpoints_state_starts_anew_so_the_output_may_be_anything() -> None:
    assert compared([1, 2], [3], CheckpointMode.NONE) is None


def test_an_ordered_comparison_names_the_first_record_that_differs() -> None:
    assert compared([1, 2, 3], [1, 3, 2], comparison=Comparison.ORDERED) == 'record 1 of sink "out" is 3, not 2'


def test_nothing_is_compared_if_that_is_asked_for() -> None:
    assert compared([1], [], comparison=Comparison.NOTHING) is None


def test_a_sink_that_one_of_them_lacks_is_empty_there() -> None:
    outputs: tuple[dict[str, list[int]], dict[str, list[int]]] = ({"out": []}, {"late": [1]})
    mode = CheckpointMode.EXACTLY_ONCE
    assert difference(*outputs, mode=mode, comparison=Comparison.MULTISET) == 'sink "late" has too many: 1'


def test_equal_records_look_the_same_whatever_the_order_of_their_entries() -> None:
    assert shown({"b": {2, 1}, "a": [(1,)]}) == shown({"a": [(1,)], "b": {1, 2}}) == "{'a': [(1,)], 'b': {1, 2}}"


def test_an_unknown_comparison_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigurationError, match="multiset, set, ordered, nothing"):
        comparison_of("almost")

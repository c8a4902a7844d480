"""Does every key belong to exactly one task, at every parallelism?"""

from collections.abc import Hashable
from datetime import UTC, timedelta, timezone
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from cutwater.protocol.key_groups import (
    KeyGroups,
    canonical_bytes,
    default_max_parallelism,
    group_range,
    key_group,
    subtask_of,
)

offsets = st.sampled_from([UTC, timezone(timedelta(hours=-3)), timezone(timedelta(hours=2))])
atoms = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-3, 3),
    st.floats(allow_nan=False),
    st.sampled_from([0.0, -0.0, 1.0, 2.0, 0.5, -1.5]),
    st.decimals(allow_nan=False, min_value=-(10**12), max_value=10**12, places=2),
    st.sampled_from([Decimal("1.0"), Decimal("0.5"), Decimal(-3), Decimal("inf")]),
    st.text(max_size=3),
    st.binary(max_size=3),
    st.dates(),
    st.datetimes(timezones=st.none() | offsets),
    st.times(timezones=st.none() | offsets),
    st.timedeltas(),
    st.uuids(),
)
keys = st.recursive(atoms, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=5)


@given(keys, keys)
def test_bytes_are_equal_exactly_when_keys_are(left: Hashable, right: Hashable):
    assert (canonical_bytes(left) == canonical_bytes(right)) == (left == right)


@given(
    st.sampled_from([0, 1, 2, -3, 10**6]),
    st.sampled_from([int, float, Decimal, lambda n: Decimal(n) * Decimal("1.00")]),
)
def test_a_number_has_the_same_bytes_in_every_type(number: int, kind: type):
    assert canonical_bytes((number, "a")) == canonical_bytes((kind(number), "a"))


@given(st.lists(keys), st.integers(1, 32768))
def test_every_key_has_one_group_in_range_with_and_without_memory(some: list[Hashable], max_parallelism: int):
    memory = KeyGroups(max_parallelism)
    groups = [memory.of(key) for key in some]
    assert groups == [key_group(key, max_parallelism) for key in some]
    assert all(0 <= group < max_parallelism for group in groups)


@given(st.integers(1, 300).flatmap(lambda most: st.tuples(st.integers(1, most), st.just(most))))
def test_every_group_belongs_to_exactly_one_subtask(sizes: tuple[int, int]):
    parallelism, max_parallelism = sizes
    ranges = [group_range(subtask, parallelism, max_parallelism) for subtask in range(parallelism)]
    assert [group for owned in ranges for group in owned] == list(range(max_parallelism))
    assert all(
        subtask_of(group, parallelism, max_parallelism) == s for s, owned in enumerate(ranges) for group in owned
    )


@given(st.integers(1, 300).flatmap(lambda most: st.tuples(st.integers(1, most), st.just(most))))
def test_no_subtask_owns_much_more_than_another(sizes: tuple[int, int]):
    parallelism, max_parallelism = sizes
    owned = [len(group_range(subtask, parallelism, max_parallelism)) for subtask in range(parallelism)]
    assert max(owned) - min(owned) <= 1


def test_every_parallelism_up_to_the_default_maximum_is_a_partition():
    assert all([group for s in range(p) for group in group_range(s, p, 128)] == list(range(128)) for p in range(1, 129))


@given(st.integers(1, 32768))
def test_the_default_maximum_holds_the_parallelism(parallelism: int):
    maximum = default_max_parallelism(parallelism)
    assert parallelism <= maximum
    assert maximum.bit_count() == 1

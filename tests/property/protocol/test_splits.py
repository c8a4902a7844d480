"""Is every split read exactly once?"""

from hypothesis import given
from hypothesis import strategies as st

from cutwater.protocol.splits import (
    AssignSplits,
    NoMoreSplits,
    Split,
    SplitAssigner,
    SplitRequested,
    SplitsDiscovered,
    SplitsFinished,
)

steps = st.lists(
    st.one_of(
        st.tuples(st.just("discover"), st.lists(st.integers(0, 15), max_size=5)),
        st.tuples(st.just("request"), st.integers(0, 2)),
        st.tuples(st.just("restore"), st.none()),
    ),
    max_size=40,
)


@given(steps, st.booleans())
def test_every_split_is_handed_out_once_and_the_end_is_told_once(steps: list[tuple[str, object]], eager: bool):
    assigner = SplitAssigner(3, eager)
    found: set[str] = set()
    read: list[str] = []
    ended: list[int] = []

    def tell(event: SplitsDiscovered | SplitRequested) -> None:
        for effect in assigner.handle(event):
            match effect:
                case AssignSplits(subtask, splits):
                    assert subtask not in ended
                    assert splits
                    read.extend(split.id for split in splits)
                case NoMoreSplits(subtask):
                    ended.append(subtask)

    for what, detail in steps:
        match what, detail:
            case "discover", list(numbers):
                found |= {str(number) for number in numbers}
                tell(SplitsDiscovered(tuple(Split(str(number), b"") for number in numbers), complete=False))
            case "request", int(subtask):
                tell(SplitRequested(subtask))
            case "restore", _:
                assigner = SplitAssigner.restored(assigner.snapshot(), 3, eager)
    assert ended == []
    tell(SplitsDiscovered((), complete=True))
    for _ in range(20):
        for subtask in range(3):
            if subtask not in ended:
                tell(SplitRequested(subtask))
    assert (sorted(read), sorted(ended)) == (sorted(found), [0, 1, 2])


@given(st.lists(st.integers(0, 50), max_size=40), st.integers(1, 5))
def test_eager_splits_are_balanced(numbers: list[int], parallelism: int):
    effects = SplitAssigner(parallelism, eager=True).handle(
        SplitsDiscovered(tuple(Split(str(number), b"") for number in numbers), complete=False)
    )
    sizes = [len(effect.splits) for effect in effects] + [0] * (parallelism - len(effects))
    assert max(sizes) - min(sizes) <= 1


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=10), st.data())
def test_no_split_is_read_before_those_that_it_comes_after(pairs: list[tuple[int, int]], data: st.DataObject):
    """Splits 0…9, some after others, found, finished and restored in any order."""
    parents: dict[int, set[int]] = {}
    for one, other in pairs:
        if one != other:
            parents.setdefault(max(one, other), set()).add(min(one, other))
    splits = [Split(str(n), b"", after=tuple(str(parent) for parent in parents.get(n, ()))) for n in range(10)]
    assigner = SplitAssigner(2, eager=True, ordered=True)
    reading: list[str] = []
    finished: set[str] = set()

    def tell(event: SplitsDiscovered | SplitsFinished) -> None:
        for effect in assigner.handle(event):
            if isinstance(effect, AssignSplits):
                for split in effect.splits:
                    assert finished.issuperset(split.after)
                    reading.append(split.id)

    tell(SplitsDiscovered(tuple(data.draw(st.permutations(splits))), complete=True))
    while reading:
        split = reading.pop(data.draw(st.integers(0, len(reading) - 1)))
        before = assigner.snapshot()
        finished.add(split)
        if data.draw(st.booleans()):  # the assigner's state may be older than the readers'
            assigner = SplitAssigner.restored(before, 2, eager=True, ordered=True, reading=reading)
            tell(SplitsDiscovered((), complete=False))
        else:
            tell(SplitsFinished((split,)))
    assert len(finished) == 10

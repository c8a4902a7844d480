"""Which task reads which part of a source?"""

from cutwater.protocol.known_origins import FORGOTTEN_AFTER_LOOKS, KnownOrigins, digest_of
from cutwater.protocol.splits import (
    AssignerState,
    AssignSplits,
    NoMoreSplits,
    Split,
    SplitAssigner,
    SplitRequested,
    SplitsDiscovered,
    SplitsFinished,
    SplitsReturned,
)

A, B, C, D = (Split(name, b"") for name in "abcd")


def test_eager_splits_are_spread_evenly_at_once():
    assert SplitAssigner(2, eager=True).handle(SplitsDiscovered((A, B, C), complete=False)) == [
        AssignSplits(0, (A, C)),
        AssignSplits(1, (B,)),
    ]


def test_later_eager_splits_go_to_whoever_has_fewest():
    assigner = SplitAssigner(2, eager=True)
    assigner.handle(SplitsDiscovered((A,), complete=False))
    assert assigner.handle(SplitsDiscovered((B, C), complete=False)) == [AssignSplits(0, (C,)), AssignSplits(1, (B,))]


def test_eager_subtasks_are_told_the_end_without_asking_and_once():
    assigner = SplitAssigner(2, eager=True)
    first = assigner.handle(SplitsDiscovered((A,), complete=True))
    assert (first, assigner.handle(SplitRequested(0))) == (
        [AssignSplits(0, (A,)), NoMoreSplits(0), NoMoreSplits(1)],
        [],
    )


def test_a_lazy_split_is_handed_out_on_request():
    assigner = SplitAssigner(2, eager=False)
    discovered = assigner.handle(SplitsDiscovered((A, B), complete=False))
    assert (discovered, assigner.handle(SplitRequested(1))) == ([], [AssignSplits(1, (A,))])


def test_a_lazy_request_waits_for_a_split():
    assigner = SplitAssigner(2, eager=False)
    waiting = assigner.handle(SplitRequested(1))
    assert (waiting, assigner.handle(SplitsDiscovered((A, B), complete=False))) == ([], [AssignSplits(1, (A,))])


def test_waiting_requests_are_served_in_order():
    assigner = SplitAssigner(3, eager=False)
    assigner.handle(SplitRequested(2))
    assigner.handle(SplitRequested(0))
    assert assigner.handle(SplitsDiscovered((A, B), complete=False)) == [AssignSplits(2, (A,)), AssignSplits(0, (B,))]


def test_waiting_subtasks_are_told_the_end():
    assigner = SplitAssigner(2, eager=False)
    assigner.handle(SplitRequested(0))
    assigner.handle(SplitRequested(1))
    assert assigner.handle(SplitsDiscovered((A,), complete=True)) == [AssignSplits(0, (A,)), NoMoreSplits(1)]


def test_a_later_request_is_told_the_end_once():
    assigner = SplitAssigner(2, eager=False)
    assigner.handle(SplitsDiscovered((), complete=True))
    assert [assigner.handle(SplitRequested(0)) for _ in range(2)] == [[NoMoreSplits(0)], []]


def test_a_known_split_is_not_handed_out_twice():
    assigner = SplitAssigner(1, eager=True)
    assigner.handle(SplitsDiscovered((A,), complete=False))
    assert assigner.handle(SplitsDiscovered((A, B, B), complete=False)) == [AssignSplits(0, (B,))]


def test_a_returned_split_is_handed_out_again_and_first():
    assigner = SplitAssigner(2, eager=False)
    assigner.handle(SplitsDiscovered((A, B, C), complete=True))
    assigner.handle(SplitRequested(0))
    moved = Split("a", b"position 7")
    assigner.handle(SplitsReturned((moved,)))
    assert assigner.handle(SplitRequested(1)) == [AssignSplits(1, (moved,))]


def test_a_split_that_is_returned_without_having_been_handed_out_stays_single():
    assigner = SplitAssigner(1, eager=False)
    assigner.handle(SplitsDiscovered((A,), complete=False))
    assigner.handle(SplitsReturned((A,)))
    assert assigner.snapshot().unassigned == (A,)


def test_a_snapshot_holds_what_was_not_handed_out_and_what_is_known():
    assigner = SplitAssigner(2, eager=False)
    assigner.handle(SplitsDiscovered((A, B), complete=True))
    assigner.handle(SplitRequested(0))
    assert assigner.snapshot() == AssignerState((B,), KnownOrigins(), True)


def test_a_restored_assigner_goes_on_at_another_parallelism():
    state = AssignerState((B, C), KnownOrigins.of("abc"), True)
    assigner = SplitAssigner.restored(state, 3, eager=False)
    assert [assigner.handle(SplitRequested(subtask)) for subtask in (2, 1, 0)] == [
        [AssignSplits(2, (B,))],
        [AssignSplits(1, (C,))],
        [NoMoreSplits(0)],
    ]


def test_a_restored_eager_assigner_spreads_at_the_first_event():
    assigner = SplitAssigner.restored(AssignerState((B,), KnownOrigins.of("ab"), False), 1, eager=True)
    assert assigner.handle(SplitsDiscovered((A, D), complete=False)) == [AssignSplits(0, (B, D))]


def part_of_file(start: int, *, path: str = "file", version: str = "") -> Split:
    return Split(f"{path}#{start}{version}", b"", origin=path)


def test_an_origin_that_was_found_once_is_known_as_a_whole():
    assigner = SplitAssigner(1, eager=False)
    assigner.handle(SplitsDiscovered((part_of_file(0), part_of_file(1000)), complete=False))
    restored = SplitAssigner.restored(assigner.snapshot(), 1, eager=False)
    grown = tuple(part_of_file(start) for start in (0, 1000, 2000))
    restored.handle(SplitsDiscovered(grown, complete=False))
    assert restored.snapshot().unassigned == (part_of_file(0), part_of_file(1000))


def look(assigner: SplitAssigner, *there: Split, gone: set[str] | None) -> None:
    digests = None if gone is None else set(map(digest_of, gone))
    assigner.handle(SplitsDiscovered(there, complete=False, gone=digests))


def test_an_origin_that_has_long_been_gone_is_forgotten_and_would_be_new():
    assigner = SplitAssigner(1, eager=False)
    assigner.handle(SplitRequested(0))
    look(assigner, part_of_file(0), gone=set())
    for _ in range(FORGOTTEN_AFTER_LOOKS):
        assert "file" in assigner.known
        look(assigner, gone={"file"})
    assert "file" not in assigner.known
    again = part_of_file(0, version="@2")
    assigner.handle(SplitRequested(0))
    assert assigner.handle(SplitsDiscovered((again,), complete=False)) == [AssignSplits(0, (again,))]


def test_an_origin_that_comes_back_in_time_is_not_new():
    assigner = SplitAssigner(1, eager=False)
    assigner.handle(SplitRequested(0))
    look(assigner, part_of_file(0), gone=set())
    for number in range(3 * FORGOTTEN_AFTER_LOOKS):
        is_back = number % FORGOTTEN_AFTER_LOOKS == 1
        look(assigner, gone=set() if is_back else {"file"})
    assert "file" in assigner.known


def test_looks_that_cannot_tell_forget_nothing():
    assigner = SplitAssigner(1, eager=False)
    assigner.handle(SplitRequested(0))
    look(assigner, part_of_file(0), gone=set())
    for _ in range(2 * FORGOTTEN_AFTER_LOOKS):
        look(assigner, gone=None)
    assert "file" in assigner.known


def test_an_origin_with_splits_that_nobody_reads_yet_is_not_forgotten():
    assigner = SplitAssigner(1, eager=False)
    look(assigner, part_of_file(0), gone=set())
    for _ in range(2 * FORGOTTEN_AFTER_LOOKS):
        look(assigner, gone={"file"})
    assert "file" in assigner.known


def test_what_is_known_is_the_same_value_while_nothing_changes():
    assigner = SplitAssigner(1, eager=False)
    look(assigner, part_of_file(0), gone=set())
    before = assigner.known
    look(assigner, part_of_file(0), gone=set())
    assert assigner.known is before


def test_known_origins_take_ten_bytes_each_and_come_back():
    known = KnownOrigins.of(f"/data/events/{number:06d}.jsonl" for number in range(1000))
    assert len(known.packed()) == 10_000
    assert KnownOrigins.unpacked(known.packed()) == known


CHILD = Split("child", b"", after=("a", "b"))


def ordered(*splits: Split) -> SplitAssigner:
    """Both halves of the first look are being read."""
    assigner = SplitAssigner(2, eager=True, ordered=True)
    assigner.handle(SplitsDiscovered(splits, complete=False))
    return assigner


def test_a_successor_waits_until_all_before_it_have_ended():
    assigner = ordered(A, B)
    assert [
        assigner.handle(SplitsDiscovered((CHILD,), complete=False)),
        assigner.handle(SplitsFinished(("a",))),
        assigner.handle(SplitsFinished(("b",))),
    ] == [[], [], [AssignSplits(0, (CHILD,))]]


def test_a_successor_of_splits_that_nobody_knows_is_read_at_once():
    assert ordered().handle(SplitsDiscovered((CHILD,), complete=False)) == [AssignSplits(0, (CHILD,))]


def test_a_successor_found_in_one_look_with_those_before_it_waits_too():
    assigner = SplitAssigner(1, eager=True, ordered=True)
    assert assigner.handle(SplitsDiscovered((CHILD, A, B), complete=True)) == [AssignSplits(0, (A, B))]


def test_a_lazy_request_passes_over_a_successor_that_waits():
    assigner = SplitAssigner(1, eager=False, ordered=True)
    assigner.handle(SplitsDiscovered((CHILD, A), complete=False))
    assert assigner.handle(SplitRequested(0)) == [AssignSplits(0, (A,))]


def test_the_end_is_not_told_while_a_successor_waits():
    assigner = ordered(A, B)
    assigner.handle(SplitsDiscovered((CHILD,), complete=True))
    assigner.handle(SplitsFinished(("a",)))
    assert assigner.handle(SplitsFinished(("b",))) == [AssignSplits(0, (CHILD,)), NoMoreSplits(0), NoMoreSplits(1)]


def test_after_a_restore_a_successor_waits_for_those_that_the_readers_snapshots_hold():
    assigner = ordered(A, B)
    assigner.handle(SplitsDiscovered((CHILD,), complete=False))
    restored = SplitAssigner.restored(assigner.snapshot(), 2, eager=True, ordered=True, reading=["b"])
    begun = restored.handle(SplitsDiscovered((), complete=False))
    assert (begun, restored.handle(SplitsFinished(("b",)))) == ([], [AssignSplits(0, (CHILD,))])


def test_what_a_look_left_for_the_next_one_is_in_the_snapshot():
    assigner = SplitAssigner(1, eager=True)
    assigner.handle(SplitsDiscovered((), complete=False, state=b"seen"))
    assigner.handle(SplitsDiscovered((), complete=False))
    assert SplitAssigner.restored(assigner.snapshot(), 1, eager=True).look == b"seen"

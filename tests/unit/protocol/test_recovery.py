"""From which snapshot does a new attempt start?"""

from cutwater.protocol.recovery import (
    AttemptClaimed,
    Recovery,
    RefuseRecovery,
    RestoreFrom,
    SnapshotCompleted,
    SnapshotDamaged,
    SnapshotVerified,
    StartEmpty,
    VerifySnapshot,
    may_append,
)

JOURNAL = [
    AttemptClaimed(1),
    SnapshotCompleted(1, 1, "chk-1"),
    SnapshotCompleted(2, 1, "chk-2"),
    AttemptClaimed(2),
]


def started(entries=JOURNAL, claimed: int = 2) -> Recovery:
    recovery = Recovery(entries, claimed)
    recovery.start()
    return recovery


def test_a_job_without_snapshots_starts_empty():
    assert Recovery([AttemptClaimed(1)], 1).start() == [StartEmpty()]


def test_the_newest_snapshot_is_verified_first():
    assert Recovery(JOURNAL, 2).start() == [VerifySnapshot(2, "chk-2")]


def test_a_verified_snapshot_is_restored():
    assert started().handle(SnapshotVerified(2)) == [RestoreFrom(2, "chk-2", ())]


def test_a_damaged_snapshot_is_skipped_for_the_one_before():
    assert started().handle(SnapshotDamaged(2, "part 3")) == [VerifySnapshot(1, "chk-1")]


def test_the_restored_snapshot_comes_with_those_that_were_skipped():
    recovery = started()
    recovery.handle(SnapshotDamaged(2, "part 3"))
    assert recovery.handle(SnapshotVerified(1)) == [RestoreFrom(1, "chk-1", ((2, "part 3"),))]


def test_a_job_whose_snapshots_are_all_damaged_never_starts_empty():
    recovery = started()
    recovery.handle(SnapshotDamaged(2, "part 3"))
    assert recovery.handle(SnapshotDamaged(1, "gone")) == [
        RefuseRecovery("the job has snapshots, but none of them verifies", ((2, "part 3"), (1, "gone")))
    ]


def test_the_newest_is_the_highest_id_and_not_the_last_entry():
    entries = [AttemptClaimed(1), SnapshotCompleted(3, 1, "chk-3"), SnapshotCompleted(2, 1, "sp-2"), AttemptClaimed(2)]
    assert Recovery(entries, 2).start() == [VerifySnapshot(3, "chk-3")]


def test_an_entry_of_a_fenced_attempt_is_ignored():
    assert Recovery([*JOURNAL, SnapshotCompleted(9, 1, "zombie")], 2).start() == [VerifySnapshot(2, "chk-2")]


def test_an_attempt_that_was_overtaken_does_not_recover():
    assert Recovery([*JOURNAL, AttemptClaimed(3)], 2).start() == [
        RefuseRecovery("attempt 2 does not hold the newest claim of the job", ())
    ]


def test_an_answer_that_was_not_asked_for_changes_nothing():
    recovery = started()
    assert (recovery.handle(SnapshotVerified(1)), recovery.handle(SnapshotVerified(2))) == (
        [],
        [RestoreFrom(2, "chk-2", ())],
    )


def test_nothing_follows_the_decision():
    recovery = started()
    recovery.handle(SnapshotVerified(2))
    assert recovery.handle(SnapshotDamaged(2, "late")) == []


def test_only_the_newest_claim_may_append():
    assert [may_append(JOURNAL, attempt) for attempt in (1, 2, 3)] == [False, True, False]


def test_nobody_may_append_without_a_claim():
    assert may_append([], 1) is False

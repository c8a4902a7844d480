"""When does prepared output become visible?"""

from cutwater.protocol.commits import Commit, CommitLedger


def ledger(**prepared: str) -> CommitLedger[str]:
    made: CommitLedger[str] = CommitLedger()
    for checkpoint, committables in prepared.items():
        made.prepared(int(checkpoint.removeprefix("at_")), committables)
    return made


def test_nothing_is_committed_before_its_checkpoint_completed():
    assert ledger(at_2="ab").completed(1) == []


def test_a_completed_checkpoint_commits_what_it_prepared():
    assert ledger(at_1="ab").completed(1) == [Commit(1, ("a", "b"))]


def test_a_completed_checkpoint_covers_older_ones_in_order():
    assert ledger(at_2="b", at_1="a", at_3="c").completed(2) == [Commit(1, ("a",)), Commit(2, ("b",))]


def test_what_is_being_committed_is_not_handed_out_twice():
    commits = ledger(at_1="a")
    commits.completed(1)
    assert commits.completed(2) == []


def test_a_failed_commit_is_handed_out_by_the_next_completed_checkpoint():
    commits = ledger(at_1="a")
    commits.completed(1)
    commits.failed(1)
    assert commits.completed(2) == [Commit(1, ("a",))]


def test_an_aborted_checkpoint_drops_nothing():
    commits = ledger(at_1="a", at_2="b")
    commits.aborted(1)
    assert commits.completed(2) == [Commit(1, ("a",)), Commit(2, ("b",))]


def test_a_snapshot_holds_everything_that_is_not_known_to_be_committed():
    commits = ledger(at_1="a", at_2="b", at_3="c")
    commits.completed(2)
    commits.committed(1)
    assert commits.pending() == (Commit(2, ("b",)), Commit(3, ("c",)))


def test_a_commit_that_was_not_handed_out_can_not_succeed():
    commits = ledger(at_1="a")
    commits.committed(1)
    assert commits.pending() == (Commit(1, ("a",)),)


def test_a_checkpoint_without_output_leaves_no_trace():
    assert ledger(at_1="").completed(1) == []


def test_a_restored_ledger_commits_again_what_its_snapshot_held():
    restored = CommitLedger([Commit(1, ("a",)), Commit(2, ("b",)), Commit(2, ("c",))])
    assert restored.completed(2) == [Commit(1, ("a",)), Commit(2, ("b", "c"))]

"""Is prepared output neither lost, nor shown too early, nor committed twice for no reason?"""

from hypothesis import given
from hypothesis import strategies as st

from cutwater.protocol.commits import CommitLedger

steps = st.lists(
    st.tuples(
        st.sampled_from(["prepare", "complete", "abort", "succeed", "fail", "restore"]),
        st.integers(0, 3),
        st.integers(0, 2),
    ),
    max_size=50,
)


@given(steps)
def test_nothing_is_lost_and_nothing_is_handed_out_before_its_checkpoint_completed(steps: list[tuple[str, int, int]]):
    ledger: CommitLedger[str] = CommitLedger()
    prepared: dict[int, tuple[str, ...]] = {}
    committed: set[int] = set()
    in_flight: list[int] = []
    newest, completed = 0, 0
    for what, place, amount in steps:
        if what == "prepare":
            newest += 1
            prepared[newest] = tuple(f"{newest}-{number}" for number in range(amount))
            ledger.prepared(newest, prepared[newest])
        elif what == "abort":
            ledger.aborted(max(newest - place, 0))
        elif what == "complete":
            checkpoint = max(newest - place, 0)
            completed = max(completed, checkpoint)
            handed_out = ledger.completed(checkpoint)
            ids = [commit.checkpoint for commit in handed_out]
            assert ids == sorted(ids)
            assert all(commit.checkpoint <= checkpoint for commit in handed_out), "before its checkpoint completed"
            assert all(commit.committables == prepared[commit.checkpoint] for commit in handed_out)
            assert not set(ids) & (set(in_flight) | committed), "handed out twice"
            in_flight += ids
        elif in_flight and what == "succeed":
            done = in_flight.pop(place % len(in_flight))
            ledger.committed(done)
            committed.add(done)
        elif in_flight and what == "fail":
            ledger.failed(in_flight.pop(place % len(in_flight)))
        elif what == "restore":
            ledger = CommitLedger(ledger.pending())
            in_flight.clear()
        outstanding = {n: output for n, output in prepared.items() if output and n not in committed}
        assert {commit.checkpoint: commit.committables for commit in ledger.pending()} == outstanding, "lost"
    for checkpoint in in_flight:
        ledger.failed(checkpoint)
    assert [commit.checkpoint for commit in ledger.completed(newest)] == [
        n for n, output in prepared.items() if output and n not in committed
    ]

"""Is the newest good snapshot always found, and an empty start never silent?"""

from hypothesis import given
from hypothesis import strategies as st

from cutwater.protocol.recovery import (
    AttemptClaimed,
    JournalEntry,
    Recovery,
    RefuseRecovery,
    RestoreFrom,
    SnapshotCompleted,
    SnapshotDamaged,
    SnapshotVerified,
    StartEmpty,
    VerifySnapshot,
)


@given(st.lists(st.lists(st.booleans(), max_size=3), max_size=4))
def test_the_newest_snapshot_that_verifies_is_restored(attempts: list[list[bool]]):
    journal: list[JournalEntry] = []
    good: dict[int, bool] = {}
    for attempt, snapshots in enumerate(attempts, start=1):
        journal.append(AttemptClaimed(attempt))
        for is_good in snapshots:
            good[len(good) + 1] = is_good
            journal.append(SnapshotCompleted(len(good), attempt, f"chk-{len(good)}"))
    claimed = len(attempts) + 1
    recovery = Recovery([*journal, AttemptClaimed(claimed)], claimed)
    (effect,) = recovery.start()
    while isinstance(effect, VerifySnapshot):
        n = effect.checkpoint
        (effect,) = recovery.handle(SnapshotVerified(n) if good[n] else SnapshotDamaged(n, "damaged"))
    newest = max((n for n, is_good in good.items() if is_good), default=None)
    skipped = tuple((n, "damaged") for n in sorted(good, reverse=True) if newest is None or n > newest)
    if newest is not None:
        assert effect == RestoreFrom(newest, f"chk-{newest}", skipped)
    elif good:
        assert effect == RefuseRecovery("the job has snapshots, but none of them verifies", skipped)
    else:
        assert effect == StartEmpty()

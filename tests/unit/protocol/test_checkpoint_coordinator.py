"""When does a checkpoint begin, complete, fail?"""

import pytest

from cutwater.errors import ConfigurationError
from cutwater.protocol.checkpoint_coordinator import (
    AttemptStarted,
    AttemptStopped,
    CheckpointCoordinator,
    CheckpointEffect,
    CheckpointKind,
    CheckpointPolicy,
    CheckpointRequested,
    ClockTicked,
    DiscardSnapshot,
    FailAttempt,
    ManifestPublished,
    NotifyAborted,
    NotifyCompleted,
    PublishFailed,
    PublishManifest,
    RefuseRequest,
    SnapshotAcknowledged,
    SnapshotDeclined,
    TriggerCheckpoint,
)
from cutwater.protocol.ids import TaskId

CHECKPOINT, SAVEPOINT, FINAL = CheckpointKind.CHECKPOINT, CheckpointKind.SAVEPOINT, CheckpointKind.FINAL
READ, COUNT = TaskId("read", 0), TaskId("count", 0)


class Job:
    """A coordinator with an attempt of two tasks, and short words for what happens to it."""

    def __init__(self, *, interval_seconds: float | None = 10, **options: float) -> None:
        self.coordinator = CheckpointCoordinator(CheckpointPolicy(interval_seconds, **options))
        self.attempt = 0
        self.start()

    def start(self, restored: int | None = None, next_checkpoint: int = 1, now: float = 0, **options: object) -> list:
        self.attempt += 1
        tasks = frozenset({READ, COUNT})
        return self.coordinator.handle(
            AttemptStarted(self.attempt, tasks, restored, next_checkpoint, now, **options),
        )

    def stop(self) -> list[CheckpointEffect]:
        return self.coordinator.handle(AttemptStopped())

    def tick(self, now: float) -> list[CheckpointEffect]:
        return self.coordinator.handle(ClockTicked(now))

    def request(self, kind: CheckpointKind, request: str = "r", now: float = 0) -> list[CheckpointEffect]:
        return self.coordinator.handle(CheckpointRequested(kind, request, now))

    def acknowledge(self, checkpoint: int, *tasks: TaskId, now: float = 0) -> list[CheckpointEffect]:
        return [
            effect
            for task in tasks or (READ, COUNT)
            for effect in self.coordinator.handle(SnapshotAcknowledged(self.attempt, checkpoint, task, now))
        ]

    def decline(self, checkpoint: int, reason: str, task: TaskId = COUNT, now: float = 0) -> list[CheckpointEffect]:
        return self.coordinator.handle(SnapshotDeclined(self.attempt, checkpoint, task, reason, now))

    def published(self, checkpoint: int, now: float = 0) -> list[CheckpointEffect]:
        return self.coordinator.handle(ManifestPublished(self.attempt, checkpoint, now))

    def publish_failed(self, checkpoint: int, now: float = 0) -> list[CheckpointEffect]:
        return self.coordinator.handle(PublishFailed(self.attempt, checkpoint, "disk full", now))

    def complete(self, checkpoint: int, now: float = 0) -> list[CheckpointEffect]:
        self.acknowledge(checkpoint, now=now)
        return self.published(checkpoint, now)


# -- beginning


def test_the_first_checkpoint_begins_one_interval_after_the_attempt():
    job = Job()
    assert (job.coordinator.wake_at(), job.tick(9.9), job.tick(10)) == (
        10,
        [],
        [TriggerCheckpoint(1, 1, CHECKPOINT, None)],
    )


def test_no_second_checkpoint_begins_while_one_is_pending():
    job = Job()
    job.tick(10)
    assert job.tick(20) == []


def test_the_clock_is_not_waited_for_while_no_checkpoint_may_begin():
    job = Job(timeout_seconds=100)
    job.tick(10)
    assert job.coordinator.wake_at() == 110


def test_several_checkpoints_run_at_once_if_allowed():
    job = Job(max_concurrent=2)
    assert [job.tick(now) for now in (10, 20, 30)] == [
        [TriggerCheckpoint(1, 1, CHECKPOINT, None)],
        [TriggerCheckpoint(1, 2, CHECKPOINT, None)],
        [],
    ]


def test_a_missed_checkpoint_begins_as_soon_as_the_slow_one_completed():
    job = Job()
    job.tick(10)
    job.complete(1, now=35)
    assert (job.coordinator.wake_at(), job.tick(35)) == (35, [TriggerCheckpoint(1, 2, CHECKPOINT, None)])


def test_missed_checkpoints_are_not_made_up_for():
    job = Job()
    job.tick(10)
    job.complete(1, now=35)
    job.tick(35)
    job.complete(2, now=36)
    assert job.coordinator.wake_at() == 45


def test_the_minimum_pause_counts_from_the_last_completion():
    job = Job(min_pause_seconds=5)
    job.tick(10)
    job.complete(1, now=19)
    assert (job.tick(20), job.coordinator.wake_at(), job.tick(24)) == (
        [],
        24,
        [TriggerCheckpoint(1, 2, CHECKPOINT, None)],
    )


def test_without_an_interval_nothing_begins_by_itself():
    job = Job(interval_seconds=None)
    assert (job.coordinator.wake_at(), job.tick(1e9)) == (None, [])


def test_a_savepoint_begins_at_once_beside_a_pending_checkpoint():
    job = Job()
    job.tick(10)
    assert job.request(SAVEPOINT, "mine", now=11) == [TriggerCheckpoint(1, 2, SAVEPOINT, "mine")]


def test_a_pending_savepoint_does_not_hold_back_the_next_checkpoint():
    job = Job()
    job.request(SAVEPOINT)
    assert job.tick(10) == [TriggerCheckpoint(1, 2, CHECKPOINT, None)]


def test_a_request_without_an_attempt_is_refused():
    job = Job()
    job.stop()
    assert job.request(SAVEPOINT, "mine") == [RefuseRequest("mine", "no attempt of the job is running")]


def test_ids_go_on_from_the_next_free_one():
    job = Job()
    job.stop()
    job.start(next_checkpoint=42)
    assert job.tick(10) == [TriggerCheckpoint(2, 42, CHECKPOINT, None)]


def test_ids_are_not_reused_when_the_journal_knows_less_than_the_coordinator():
    job = Job()
    job.tick(10)
    job.stop()
    job.start(next_checkpoint=1, now=20)
    assert job.tick(30) == [TriggerCheckpoint(2, 2, CHECKPOINT, None)]


# -- completing


def test_the_manifest_is_published_when_every_task_acknowledged():
    job = Job()
    job.tick(10)
    assert (job.acknowledge(1, READ), job.acknowledge(1, COUNT)) == ([], [PublishManifest(1, 1, CHECKPOINT)])


def test_an_acknowledgement_counts_once_and_only_from_a_task_of_the_attempt():
    job = Job()
    job.tick(10)
    assert job.acknowledge(1, READ, READ, TaskId("stranger", 0)) == []


def test_a_repeated_acknowledgement_does_not_publish_twice():
    job = Job()
    job.tick(10)
    job.acknowledge(1)
    assert job.acknowledge(1, COUNT) == []


def test_a_checkpoint_is_completed_when_its_manifest_is_there():
    job = Job()
    job.tick(10)
    job.acknowledge(1)
    effects = job.published(1)
    assert (effects, job.coordinator.completed, job.coordinator.pending) == (
        [NotifyCompleted(1, 1, CHECKPOINT, None)],
        (1,),
        (),
    )


def test_a_publication_that_nobody_asked_for_completes_nothing():
    job = Job()
    job.tick(10)
    assert (job.published(1), job.published(7), job.coordinator.completed) == ([], [], ())


def test_a_publication_is_reported_once():
    job = Job()
    job.tick(10)
    job.complete(1)
    assert job.published(1) == []


def test_a_completed_savepoint_answers_its_requester_and_is_not_retained():
    job = Job()
    job.request(SAVEPOINT, "mine")
    assert (job.complete(1), job.coordinator.completed) == ([NotifyCompleted(1, 1, SAVEPOINT, "mine")], ())


def test_a_completed_checkpoint_subsumes_older_pending_ones_but_not_savepoints():
    job = Job(max_concurrent=2)
    job.tick(10)
    job.request(SAVEPOINT, "mine")
    job.tick(20)
    assert (job.complete(3), job.coordinator.pending) == (
        [
            NotifyCompleted(1, 3, CHECKPOINT, None),
            NotifyAborted(1, 1, "subsumed by checkpoint 3", None),
            DiscardSnapshot(1),
        ],
        (2,),
    )


def test_a_completed_savepoint_subsumes_nothing():
    job = Job()
    job.tick(10)
    job.request(SAVEPOINT)
    job.complete(2)
    assert job.coordinator.pending == (1,)


def test_an_older_checkpoint_published_after_a_newer_one_is_discarded_and_never_notified():
    job = Job(max_concurrent=2)
    job.tick(10)
    job.tick(20)
    job.acknowledge(1)
    assert (job.complete(2), job.published(1), job.coordinator.completed) == (
        [NotifyCompleted(1, 2, CHECKPOINT, None)],
        [DiscardSnapshot(1)],
        (2,),
    )


def test_a_subsumed_checkpoint_whose_publication_fails_is_no_failure():
    job = Job(max_concurrent=2)
    job.tick(10)
    job.tick(20)
    job.acknowledge(1)
    job.complete(2)
    assert job.publish_failed(1) == [DiscardSnapshot(1)]


def test_the_oldest_checkpoint_beyond_the_retained_ones_is_discarded():
    job = Job(retain=2)
    for checkpoint in (1, 2, 3):
        job.tick(10 * checkpoint)
        effects = job.complete(checkpoint, now=10 * checkpoint)
    assert (effects, job.coordinator.completed) == (
        [NotifyCompleted(1, 3, CHECKPOINT, None), DiscardSnapshot(1)],
        (2, 3),
    )


# -- failing


def test_a_timeout_aborts_discards_and_fails_the_attempt():
    job = Job(timeout_seconds=60)
    job.tick(10)
    job.acknowledge(1, READ)
    reason = "timed out after 60 s, still waiting for count[0]"
    assert job.tick(70) == [
        NotifyAborted(1, 1, reason, None),
        DiscardSnapshot(1),
        FailAttempt(f"checkpoint 1 failed (0 tolerated): {reason}"),
    ]


def test_a_tolerated_timeout_lets_the_next_checkpoint_begin():
    job = Job(timeout_seconds=60, tolerable_failures=1)
    job.tick(10)
    assert job.tick(70)[-1] == TriggerCheckpoint(1, 2, CHECKPOINT, None)


def test_a_checkpoint_that_times_out_while_it_is_published_is_discarded_only_afterwards():
    job = Job(timeout_seconds=60, tolerable_failures=9)
    job.tick(10)
    job.acknowledge(1)
    effects = job.tick(70)
    assert (DiscardSnapshot(1) in effects, job.published(1), job.coordinator.completed) == (
        False,
        [DiscardSnapshot(1)],
        (),
    )


def test_a_decline_is_a_failure():
    job = Job()
    job.tick(10)
    assert job.decline(1, "no space") == [
        NotifyAborted(1, 1, "count[0] declined: no space", None),
        DiscardSnapshot(1),
        FailAttempt("checkpoint 1 failed (0 tolerated): count[0] declined: no space"),
    ]


def test_a_superseded_checkpoint_is_no_failure():
    job = Job(max_concurrent=2)
    job.tick(10)
    job.tick(20)
    assert job.decline(1, "superseded by checkpoint 2") == [
        NotifyAborted(1, 1, "superseded by checkpoint 2", None),
        DiscardSnapshot(1),
    ]


def test_a_decline_of_a_task_that_acknowledged_is_ignored():
    job = Job()
    job.tick(10)
    job.acknowledge(1, READ)
    assert job.decline(1, "too late", task=READ) == []


def test_a_publication_that_fails_is_a_failure():
    job = Job(tolerable_failures=1)
    job.tick(10)
    job.acknowledge(1)
    assert job.publish_failed(1) == [
        NotifyAborted(1, 1, "the manifest could not be published: disk full", None),
        DiscardSnapshot(1),
    ]


def test_a_success_resets_the_count_of_failures():
    job = Job(tolerable_failures=1)
    job.tick(10)
    job.decline(1, "no")
    job.tick(20)
    job.complete(2)
    job.tick(30)
    assert not [effect for effect in job.decline(3, "no") if isinstance(effect, FailAttempt)]


def test_the_attempt_is_failed_once():
    job = Job(max_concurrent=2)
    job.tick(10)
    job.tick(20)
    failures = [effect for n in (1, 2) for effect in job.decline(n, "no") if isinstance(effect, FailAttempt)]
    assert len(failures) == 1


def test_a_failing_attempt_begins_no_checkpoint():
    job = Job()
    job.tick(10)
    job.decline(1, "no")
    assert (job.tick(20), job.coordinator.wake_at(), job.request(SAVEPOINT)) == (
        [],
        None,
        [RefuseRequest("r", "the attempt is failing")],
    )


def test_a_failed_savepoint_answers_its_requester_and_leaves_the_attempt_alone():
    job = Job()
    job.request(SAVEPOINT, "mine")
    assert job.decline(1, "no") == [NotifyAborted(1, 1, "count[0] declined: no", "mine"), DiscardSnapshot(1)]


# -- the final checkpoint


def test_the_final_checkpoint_begins_at_once_and_stops_the_periodic_ones():
    job = Job()
    job.tick(10)
    effects = job.request(FINAL, "end", now=11)
    job.complete(1, now=12)
    assert (effects, job.tick(1000)) == (
        [TriggerCheckpoint(1, 2, FINAL, "end")],
        [
            NotifyAborted(1, 2, "timed out after 600 s, still waiting for count[0], read[0]", None),
            DiscardSnapshot(2),
            FailAttempt(
                "checkpoint 2 failed (0 tolerated): timed out after 600 s, still waiting for count[0], read[0]",
            ),
        ],
    )


def test_a_final_checkpoint_that_fails_is_tried_again_at_the_next_tick():
    job = Job(tolerable_failures=1)
    job.request(FINAL, "end", now=5)
    aborted = job.decline(1, "no", now=6)
    assert (aborted, job.coordinator.wake_at(), job.tick(6)) == (
        [NotifyAborted(1, 1, "count[0] declined: no", None), DiscardSnapshot(1)],
        6,
        [TriggerCheckpoint(1, 2, FINAL, "end")],
    )


def test_a_completed_final_checkpoint_answers_its_requester():
    job = Job()
    job.request(FINAL, "end")
    assert (job.complete(1), job.coordinator.completed) == ([NotifyCompleted(1, 1, FINAL, "end")], (1,))


def test_a_request_after_the_final_one_is_refused():
    job = Job()
    job.request(FINAL, "end")
    assert job.request(SAVEPOINT, "mine") == [
        RefuseRequest("mine", "the job is finishing: its final checkpoint has begun")
    ]


# -- attempts


def test_a_stopped_attempt_discards_what_was_pending_and_refuses_its_requests():
    job = Job()
    job.tick(10)
    job.request(SAVEPOINT, "mine")
    assert (job.stop(), job.coordinator.pending, job.coordinator.wake_at()) == (
        [
            DiscardSnapshot(1),
            DiscardSnapshot(2),
            RefuseRequest("mine", "the attempt stopped before the snapshot was complete"),
        ],
        (),
        None,
    )


def test_a_stopped_attempt_leaves_what_is_being_published_to_recovery():
    job = Job()
    job.tick(10)
    job.acknowledge(1)
    assert job.stop() == []


def test_a_stopped_attempt_refuses_a_final_request_that_waited_for_its_next_try():
    job = Job(tolerable_failures=1)
    job.request(FINAL, "end")
    job.decline(1, "no")
    assert job.stop() == [RefuseRequest("end", "the attempt stopped before its final checkpoint")]


def test_nothing_is_heard_after_the_attempt_stopped():
    job = Job()
    job.tick(10)
    job.stop()
    assert job.acknowledge(1) + job.published(1) + job.decline(1, "no") + job.publish_failed(1) + job.tick(99) == []


def test_what_an_older_attempt_says_is_ignored():
    job = Job()
    job.start(next_checkpoint=1)
    job.tick(10)
    job.attempt = 1
    assert job.acknowledge(1) + job.decline(1, "zombie") == []


def test_an_older_attempt_can_not_start_again():
    job = Job()
    job.start()
    job.attempt = 0
    assert (job.start(), job.tick(10)) == ([], [TriggerCheckpoint(2, 1, CHECKPOINT, None)])


def test_a_new_attempt_stops_the_one_before_it():
    job = Job()
    job.request(SAVEPOINT, "mine")
    assert job.start() == [
        DiscardSnapshot(1),
        RefuseRequest("mine", "the attempt stopped before the snapshot was complete"),
    ]


def test_completed_checkpoints_up_to_the_restored_one_stay():
    job = Job()
    for checkpoint in (1, 2, 3):
        job.tick(10 * checkpoint)
        job.complete(checkpoint, now=10 * checkpoint)
    assert (job.start(restored=2, next_checkpoint=4), job.coordinator.completed) == ([], (1, 2))


def test_the_restored_checkpoint_is_retained_by_a_coordinator_that_never_saw_it():
    job = Job(retain=1)
    job.start(restored=5, next_checkpoint=6)
    job.tick(10)
    assert job.complete(6) == [NotifyCompleted(2, 6, CHECKPOINT, None), DiscardSnapshot(5)]


def test_what_earlier_drivers_have_kept_counts_as_retained():
    job = Job(retain=2)
    job.start(restored=5, next_checkpoint=6, kept=(3, 4, 5))
    job.tick(10)
    assert job.complete(6) == [NotifyCompleted(2, 6, CHECKPOINT, None), DiscardSnapshot(3), DiscardSnapshot(4)]


def test_a_damaged_checkpoint_above_the_restored_one_is_left_for_a_person_to_look_at():
    job = Job(retain=1)
    job.start(restored=4, next_checkpoint=6, kept=(4, 5))
    job.tick(10)
    assert job.complete(6) == [NotifyCompleted(2, 6, CHECKPOINT, None), DiscardSnapshot(4)]


def test_the_count_of_failures_begins_anew_with_an_attempt():
    job = Job(tolerable_failures=1)
    job.tick(10)
    job.decline(1, "no")
    job.start()
    job.tick(20)
    assert not [effect for effect in job.decline(2, "no") if isinstance(effect, FailAttempt)]


@pytest.mark.parametrize(
    "options",
    [
        {"interval_seconds": 0},
        {"interval_seconds": 1, "timeout_seconds": 0},
        {"interval_seconds": 1, "min_pause_seconds": -1},
        {"interval_seconds": 1, "max_concurrent": 0},
        {"interval_seconds": 1, "tolerable_failures": -1},
        {"interval_seconds": 1, "retain": 0},
    ],
)
def test_a_policy_that_can_not_work_is_refused(options: dict[str, float]):
    with pytest.raises(ConfigurationError):
        CheckpointPolicy(**options)

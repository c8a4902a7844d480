"""Which promises does the coordinator keep, whatever it hears and in whatever order?"""

from collections import defaultdict

from hypothesis import given, settings
from hypothesis import strategies as st

from cutwater.protocol.checkpoint_coordinator import (
    AttemptStarted,
    AttemptStopped,
    CheckpointCoordinator,
    CheckpointEffect,
    CheckpointEvent,
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

TASKS = frozenset(TaskId("count", subtask) for subtask in range(2))
KINDS = st.sampled_from(CheckpointKind)

policies = st.builds(
    CheckpointPolicy,
    interval_seconds=st.sampled_from([None, 1, 3]),
    timeout_seconds=st.sampled_from([2, 5, 50]),
    min_pause_seconds=st.sampled_from([0, 2]),
    max_concurrent=st.integers(1, 3),
    tolerable_failures=st.integers(0, 3),
    retain=st.integers(1, 3),
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("tick"), st.integers(0, 4)),
        st.tuples(st.just("tick"), st.just(0)),
        st.tuples(st.just("wake"), st.none()),
        st.tuples(st.just("request"), KINDS),
        # Which pending checkpoint, which attempt back, which task: sometimes one that does not exist.
        st.tuples(
            st.just("acknowledge"), st.tuples(st.integers(0, 3), st.sampled_from([0, 0, 0, 1]), st.integers(0, 2))
        ),
        st.tuples(st.just("acknowledge all"), st.integers(0, 3)),
        st.tuples(st.just("decline"), st.tuples(st.integers(0, 3), st.booleans())),
        st.tuples(st.just("publish"), st.tuples(st.integers(0, 3), st.sampled_from([True, True, False]))),
        st.tuples(st.just("stop"), st.none()),
        st.tuples(st.just("start"), st.booleans()),
    ),
    max_size=60,
)


class World:
    """Everything around the coordinator, with a memory of what was said, and the promises checked at every step."""

    def __init__(self, policy: CheckpointPolicy) -> None:
        self.policy = policy
        self.coordinator = CheckpointCoordinator(policy)
        self.now = 0.0
        self.attempt = 0
        self.running = False
        self.triggered: dict[int, TriggerCheckpoint] = {}
        self.acknowledged: dict[int, set[TaskId]] = defaultdict(set)
        self.publishing: list[PublishManifest] = []
        self.asked_to_publish: set[int] = set()
        self.published: set[int] = set()
        self.completed: list[int] = []
        self.aborted: set[int] = set()
        self.discarded: list[int] = []
        self.open_requests: set[str] = set()
        self.requests = 0
        self.failed_attempts: list[int] = []

    def tell(self, event: CheckpointEvent) -> list[CheckpointEffect]:
        effects = self.coordinator.handle(event)
        for effect in effects:
            self.check(effect)
        return effects

    def check(self, effect: CheckpointEffect) -> None:
        match effect:
            case TriggerCheckpoint(attempt, checkpoint, _, request):
                assert checkpoint > max(self.triggered, default=0), "ids are monotone over all attempts"
                assert self.running
                assert attempt == self.attempt
                assert request is None or request in self.open_requests
                self.triggered[checkpoint] = effect
            case PublishManifest(attempt, checkpoint, kind):
                assert self.acknowledged[checkpoint] == TASKS, "published without all acknowledgements"
                assert (attempt, kind) == (self.attempt, self.triggered[checkpoint].kind)
                assert checkpoint not in self.aborted
                assert checkpoint not in self.asked_to_publish, "published twice"
                self.asked_to_publish.add(checkpoint)
                self.publishing.append(effect)
            case NotifyCompleted(attempt, checkpoint, kind, request):
                assert checkpoint in self.published, "completed without a manifest"
                assert checkpoint not in self.completed, "completed twice"
                assert checkpoint not in self.aborted
                assert attempt == self.triggered[checkpoint].attempt == self.attempt
                if kind is not CheckpointKind.SAVEPOINT:
                    newest = max((n for n in self.completed if not self.is_savepoint(n)), default=0)
                    assert checkpoint > newest, "an older checkpoint completed after a newer one"
                self.completed.append(checkpoint)
                self.answer(request)
            case NotifyAborted(_, checkpoint, _, request):
                assert checkpoint not in self.completed
                assert checkpoint not in self.aborted
                self.aborted.add(checkpoint)
                self.answer(request)
            case DiscardSnapshot(checkpoint):
                assert checkpoint not in self.discarded
                assert checkpoint not in self.coordinator.completed
                assert not (checkpoint in self.completed and self.is_savepoint(checkpoint)), "a user's savepoint"
                assert checkpoint not in {manifest.checkpoint for manifest in self.publishing}, "under the writer"
                self.discarded.append(checkpoint)
            case RefuseRequest(request, _):
                self.answer(request)
            case FailAttempt():
                assert self.attempt not in self.failed_attempts
                self.failed_attempts.append(self.attempt)

    def answer(self, request: str | None) -> None:
        if request is not None:
            self.open_requests.remove(request)  # fails if it was answered before

    def is_savepoint(self, checkpoint: int) -> bool:
        return self.triggered[checkpoint].kind is CheckpointKind.SAVEPOINT

    def pick(self, place: int) -> int:
        pending = self.coordinator.pending
        return pending[place % len(pending)] if pending else max(self.triggered, default=0)

    def step(self, what: str, detail: object) -> None:
        match what, detail:
            case "tick", int(seconds):
                self.now += seconds
                self.tell(ClockTicked(self.now))
            case "wake", _:
                self.wake()
            case "request", CheckpointKind() as kind:
                self.requests += 1
                self.open_requests.add(f"request {self.requests}")
                self.tell(CheckpointRequested(kind, f"request {self.requests}", self.now))
            case "acknowledge", (place, back, subtask):
                self.acknowledge(self.pick(place), self.attempt - back, TaskId("count", subtask))
            case "acknowledge all", int(place):
                checkpoint = self.pick(place)
                for task in TASKS:
                    self.acknowledge(checkpoint, self.attempt, task)
            case "decline", (place, superseded):
                reason = "superseded by checkpoint 99" if superseded else "no"
                self.tell(SnapshotDeclined(self.attempt, self.pick(place), TaskId("count", 0), reason, self.now))
            case "publish", (place, succeeds):
                self.publish(place, succeeds)
            case "stop", _:
                self.running = False
                self.tell(AttemptStopped())
                self.publishing.clear()
                assert not self.open_requests, "a request without an answer"
            case "start", _:
                self.tell(AttemptStopped())
                self.publishing.clear()
                self.attempt += 1
                self.running = True
                restored = max(self.coordinator.completed, default=None)
                next_checkpoint = max(self.triggered, default=0) + 1
                self.tell(AttemptStarted(self.attempt, TASKS, restored, next_checkpoint, self.now))
        self.check_always()

    def acknowledge(self, checkpoint: int, attempt: int, task: TaskId) -> None:
        trigger = self.triggered.get(checkpoint)
        if trigger is not None and attempt == trigger.attempt and task in TASKS:
            self.acknowledged[checkpoint].add(task)
        self.tell(SnapshotAcknowledged(attempt, checkpoint, task, self.now))

    def publish(self, place: int, succeeds: bool) -> None:
        if not self.publishing:
            self.tell(ManifestPublished(self.attempt, self.pick(place), self.now))
            return
        manifest = self.publishing.pop(place % len(self.publishing))
        if succeeds:
            self.published.add(manifest.checkpoint)
            self.tell(ManifestPublished(manifest.attempt, manifest.checkpoint, self.now))
        else:
            self.tell(PublishFailed(manifest.attempt, manifest.checkpoint, "disk full", self.now))

    def wake(self) -> None:
        moment = self.coordinator.wake_at()
        if moment is not None:
            self.now = max(self.now, moment)
            assert self.tell(ClockTicked(self.now)), "woken up for nothing: the shell would spin"

    def check_always(self) -> None:
        periodic = [n for n in self.coordinator.pending if self.triggered[n].request is None]
        assert len(periodic) <= self.policy.max_concurrent
        assert len(self.coordinator.completed) <= self.policy.retain
        assert list(self.coordinator.completed) == sorted(self.coordinator.completed)
        assert not set(self.coordinator.completed) & set(self.discarded)


@settings(max_examples=400)
@given(policies, steps)
def test_the_coordinator_keeps_its_promises(policy: CheckpointPolicy, steps: list[tuple[str, object]]):
    world = World(policy)
    world.step("start", None)
    for what, detail in steps:
        world.step(what, detail)


@given(st.integers(1, 5))
def test_a_job_without_trouble_completes_a_checkpoint_every_interval(rounds: int):
    world = World(CheckpointPolicy(interval_seconds=1))
    world.step("start", None)
    for _ in range(rounds):
        world.step("wake", None)
        world.step("acknowledge all", 0)
        world.step("publish", (0, True))
    assert (world.completed, world.now) == (list(range(1, rounds + 1)), float(rounds))

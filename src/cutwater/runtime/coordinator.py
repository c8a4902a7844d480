"""What does the driver do about checkpoints, failures, commits and the end of the job?

The coordinator is an actor: messages and results of background work wait in its mailbox, `step` takes them one by one.
It decides nothing by itself that a machine in `protocol` can decide; it keeps the books and carries out the effects.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, assert_never

import cloudpickle

from cutwater.errors import (
    ConfigurationError,
    CutwaterError,
    InternalError,
    OperationsError,
    SlotsMissingError,
    SnapshotDamagedError,
    UserFunctionError,
)
from cutwater.graph.model import LogicalNode, NodeKind
from cutwater.graph.plan import JobPlan
from cutwater.operators.metrics import SlotMetrics
from cutwater.protocol.checkpoint_events import CheckpointKind
from cutwater.protocol.deploying import DeployingSlots
from cutwater.protocol.ids import AttemptNumber, CheckpointId, SlotId
from cutwater.protocol.lifecycle import JobLifecycle, JobState
from cutwater.protocol.modes import CheckpointMode
from cutwater.protocol.restart import GiveUp, RestartAfter
from cutwater.protocol.slot_roster import SlotRoster
from cutwater.protocol.source_alignment import LimitSource
from cutwater.runtime import messages
from cutwater.runtime.aligning import AlignedSources
from cutwater.runtime.attempt import Attempt
from cutwater.runtime.checkpointing import Checkpointing
from cutwater.runtime.job_status import StatusBoard
from cutwater.runtime.progress import ReadProgress
from cutwater.runtime.recovering import History, Recovered, assigner_states, damaged_at, recover
from cutwater.runtime.requests import Answer, Requests
from cutwater.runtime.rescaling import Rescaling
from cutwater.runtime.restoring import orders_for
from cutwater.runtime.seams import Background, Clock, SlotLines, SlotProvider
from cutwater.runtime.sources import SourceCoordination
from cutwater.runtime.stopping import Stopping
from cutwater.snapshots.store import SnapshotStore
from cutwater.status import CheckpointDetails, JobStatus

#: A channel that broke means that a slot is gone; its own line says so a moment later, and names it.
SUSPICION_SECONDS = 1.0
#: How often the status says what the deployment waits for.
DEPLOYING_TOLD_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class CoordinatorServices:
    """What the coordinator uses of the world."""

    clock: Clock
    lines: SlotLines
    provider: SlotProvider
    background: Background
    store: SnapshotStore
    new_token: Callable[[], str]
    random: Callable[[], float]
    #: Each is called after every change, on the coordinator's thread.
    listeners: tuple[Callable[[JobStatus], None], ...]


@dataclass(frozen=True, slots=True)
class _Slot:
    address: str
    host: str
    pid: int


class Coordinator:
    """The brain of one job."""

    def __init__(self, plan: JobPlan, pickled_plan: bytes, services: CoordinatorServices, history: History) -> None:
        self.plan = plan
        self._services = services
        self._clock = services.clock
        self._pickled_plan = pickled_plan
        self._history = history
        self._mailbox: deque[Callable[[], None]] = deque()
        self._lifecycle = JobLifecycle()
        self._slots: dict[SlotId, _Slot] = {}
        self._roster = SlotRoster(plan.options.heartbeat_timeout_seconds)
        self._holding_plan: set[SlotId] = set()
        self._attempt: Attempt | None = None
        self._recovered: Recovered | None = None
        self._stopping = Stopping(self)
        self._requests = Requests()
        self._rescaling = Rescaling(self)
        self._sources: dict[str, SourceCoordination] = {}
        self._aligned: AlignedSources | None = None
        self._progress = ReadProgress()
        self._mode = plan.options.checkpoints.checkpoint_mode
        self._restart = plan.options.restart.start(services.random)
        self._deadlines: dict[str, tuple[float, Callable[[], None]]] = {}
        self._board = StatusBoard(plan, services.clock)
        self._checkpoints = Checkpointing(
            plan,
            self,
            clock=services.clock,
            background=services.background,
            store=services.store,
            board=self._board,
            new_token=services.new_token,
        )

    # What the outside calls, from any thread.

    def start(self) -> None:
        self.post(self._start)

    def deliver(self, slot: SlotId, message: messages.FromSlot) -> None:
        self.post(lambda: self._handle(slot, message))

    def slot_lost(self, slot: SlotId, reason: str) -> None:
        self.post(lambda: self._slot_lost(slot, reason))

    def slot_held(self, slot: SlotId, seconds: float) -> None:
        """The slot is silent because a call holds its interpreter."""
        self.post(lambda: self._slot_held(slot, seconds))

    def cancel(self) -> None:
        self.post(self._cancel)

    def stop(self, *, savepoint: str = "", drain: bool = False, answer: Answer = lambda path, error: None) -> None:
        """Answers when the savepoint is complete; without one there is nothing to answer."""
        self.post(lambda: self._stop(savepoint, answer, drain=drain))

    def checkpoint(self, answer: Answer) -> None:
        """Answers when it is complete."""
        self.post(lambda: self.take_checkpoint(answer))

    def savepoint(self, target: str, answer: Answer) -> None:
        """Answers with the path of the savepoint."""
        self.post(lambda: self.take_savepoint(target, answer))

    def rescale(self, parallelism: int, answer: Answer) -> None:
        """Checkpoint, then go on from it with another number of tasks; answers when they run."""
        self.post(lambda: self._rescale(parallelism, answer))

    def crashed(self, error: BaseException) -> None:
        """A step of ours raised: an invariant is broken, so the job ends here and its snapshots stay."""
        self._give_up(_as_ours(error))
        self._publish_status()

    def post(self, work: Callable[[], None]) -> None:
        self._mailbox.append(work)

    # The loop.

    def step(self) -> bool:
        """Handles what is there; False: nothing was."""
        worked = False
        while self._mailbox and not self.ended:
            self._mailbox.popleft()()
            worked = True
        if not self.ended:
            worked = self._tick() or worked
        if worked:
            self._publish_status()
        return worked

    def wake_at(self) -> float | None:
        times = [time for time, _ in self._deadlines.values()]
        times += [time for source in self._sources.values() if (time := source.wake_at()) is not None]
        times += [time for time in (self._checkpoints.wake_at(), self._roster.wake_at()) if time is not None]
        return min(times, default=None)

    @property
    def ended(self) -> bool:
        return self._lifecycle.terminal

    @property
    def commits(self) -> bool:
        """A sink commits in the driver just now; it can't be stopped."""
        return self._checkpoints.driver_side.busy

    @property
    def status(self) -> JobStatus:
        return self._board.status

    def checkpoint_details(self, checkpoint: int) -> CheckpointDetails | None:
        """Of one that is under way, or of the newest that are finished. From any thread."""
        return self._checkpoints.details_under_way(checkpoint) or self._board.checkpoint_details(checkpoint)

    @property
    def failure(self) -> CutwaterError | None:
        """What made the job fail, with its causes."""
        return self._board.failure

    def _tick(self) -> bool:
        now = self._clock.now_seconds()
        due = [name for name, (time, _) in self._deadlines.items() if time <= now]
        for name in due:
            if name in self._deadlines:
                self._deadlines.pop(name)[1]()
        for source in list(self._sources.values()):
            source.tick(now)
        stuck = self._write_off_slots(now)
        return self._checkpoints.tick(now) or stuck or bool(due)

    # Life of the job.

    def _start(self) -> None:
        self.want_slots(self.plan)
        self._begin_attempt()

    def _begin_attempt(self) -> None:
        self._lifecycle.move(JobState.WAITING_FOR_SLOTS)
        self._recovered = None
        timeout = self.plan.options.slot_timeout_seconds
        self.after("slots", timeout, self._give_up_waiting)
        # A commit of the last attempt may still run: the recovery commits the same, and must not do so beside it.
        self._checkpoints.driver_side.when_idle("recovery", self._recover)

    def _recover(self) -> None:
        if self._lifecycle.state is JobState.WAITING_FOR_SLOTS:
            plan, store, history = self.plan, self._services.store, self._history
            self._services.background.submit(lambda: recover(plan, store, history), self._on_recovered)

    def _on_recovered(self, recovered: Recovered | None, error: BaseException | None) -> None:
        if self._lifecycle.state is not JobState.WAITING_FOR_SLOTS:
            return
        if error is not None or recovered is None:
            self._fail(_as_ours(error))
            return
        self._recovered = recovered
        self._board.recovered(recovered)
        self._deploy_if_ready()

    def _deploy_if_ready(self) -> None:
        recovered = self._recovered
        if self._lifecycle.state is not JobState.WAITING_FOR_SLOTS or recovered is None:
            return
        needed = self.plan.graph.slots_needed
        slots = self._roster.free[:needed]
        if len(slots) < needed:
            return
        self._deadlines.pop("slots", None)
        self._board.slots_ready()
        self._lifecycle.move(JobState.DEPLOYING)
        graph = self.plan.graph
        timeout_seconds = self.plan.options.deploy_timeout_seconds
        attempt = Attempt(
            recovered.attempt,
            token=self._services.new_token(),
            graph=graph,
            sinks={vertex.uid for vertex in graph.vertices if _has_sink(vertex)},
            slots=slots,
            deploying=DeployingSlots(slots, now_seconds=self._clock.now_seconds(), timeout_seconds=timeout_seconds),
        )
        self._attempt = attempt
        self._look_at_deploying()
        addresses = {str(task): self._slots[slot].address for task, slot in attempt.slot_of.items()}
        for slot in attempt.slots:
            self._deploy(slot, attempt, recovered, addresses)

    def _deploy(self, slot: SlotId, attempt: Attempt, recovered: Recovered, addresses: dict[str, str]) -> None:
        tasks = attempt.tasks_in(slot)
        job = b"" if slot in self._holding_plan else self._pickled_plan
        order = orders_for(self.plan.graph, tasks, recovered.restored, self._progress)
        self._services.lines.send(
            slot,
            messages.DeployAttempt(attempt.number, attempt.token, job, tasks, addresses, order, recovered.run),
        )

    def _start_attempt(self, attempt: Attempt) -> None:
        recovered = self._recovered
        assert recovered is not None
        self._deadlines.pop("deploy", None)
        self._lifecycle.move(JobState.RUNNING)
        self._board.deployed(attempt.restore_seconds)
        self._restart.running(self._clock.now_seconds())
        attempt.started = True
        self.tell_all(messages.StartAttempt(attempt.number))
        self._checkpoints.start(frozenset(attempt.tasks), recovered)
        self._start_sources(attempt, recovered)
        self._rescaling.attempt_started()

    def _start_sources(self, attempt: Attempt, recovered: Recovered) -> None:
        self._aligned = AlignedSources(self.plan, self._limiter_of(attempt))
        states = assigner_states(recovered.restored) | self._progress.assigners
        for vertex in self.plan.graph.vertices:
            head = vertex.operators[0]
            if head.kind is NodeKind.SOURCE:
                self._sources[head.uid] = SourceCoordination(
                    head.uid,
                    head.connector,
                    parallelism=vertex.parallelism,
                    attempt=attempt.number,
                    state=states.get(head.uid),
                    send=self._sender_to(attempt),
                    background=self._services.background,
                    clock=self._clock,
                    failed=lambda error: self._fail(_as_ours(error)),
                    keeps_assigned=self._mode is CheckpointMode.NONE,
                    reading=recovered.reading.get(head.uid, ()) or self._progress.reading(head.uid),
                )
        for source in list(self._sources.values()):
            source.start()
        self._stopping.attempt_started()

    def _sender_to(self, attempt: Attempt) -> Callable[[int, messages.SplitsAssigned], None]:
        def send(subtask: int, message: messages.SplitsAssigned) -> None:
            self._services.lines.send(attempt.slots[subtask], message)

        return send

    def _limiter_of(self, attempt: Attempt) -> Callable[[LimitSource], None]:
        def limit(effect: LimitSource) -> None:
            task = effect.task
            self._services.lines.send(
                attempt.slot_of[task], messages.TimeLimited(attempt.number, task.vertex, task.subtask, effect.limit_ms)
            )

        return limit

    def _finish_if_over(self) -> None:
        attempt = self._attempt
        is_over = attempt is not None and attempt.over and self._checkpoints.settled
        if is_over and self._lifecycle.state is JobState.FINISHING:
            self._end(JobState.FINISHED)

    def _all_tasks_finished(self) -> None:
        self._lifecycle.move(JobState.FINISHING)
        if self._mode is CheckpointMode.NONE:
            # Without checkpoints the sinks have committed by themselves at the end of their input.
            self._end(JobState.FINISHED)
        else:
            self._stopping.all_has_arrived()

    def _cancel(self) -> None:
        self._lifecycle.move(JobState.CANCELLING)
        self._end(JobState.CANCELLED)
        if self.plan.options.checkpoints.on_cancel == "delete":
            try:
                self._services.store.discard_all()
            except CutwaterError as error:
                self._board.warn(f"the checkpoints could not be deleted: {error}")

    def _stop(self, savepoint: str, answer: Answer, *, drain: bool) -> None:
        if savepoint and self._mode is CheckpointMode.NONE:
            answer("", _no_savepoints())
        else:
            self._stopping.start(savepoint, answer, drain=drain)

    def _rescale(self, parallelism: int, answer: Answer) -> None:
        try:
            plan = self.plan.at(parallelism)
            self._check_can_rescale()
        except CutwaterError as error:
            answer("", error)
        else:
            self._rescaling.start(plan, answer)

    def _check_can_rescale(self) -> None:
        if self._mode is CheckpointMode.NONE:
            raise ConfigurationError("a job without checkpoints can't be rescaled", hint="its state would be lost")
        if self._lifecycle.state is not JobState.RUNNING or self._stopping.under_way:
            state = "being stopped" if self._stopping.under_way else self._lifecycle.state.replace("_", " ")
            raise OperationsError(f"a job that is {state} can't be rescaled now")

    def _end(self, state: JobState) -> None:
        self._stop_attempt()
        self._rescaling.job_ended(state)
        self._requests.answer_all(OperationsError(f"the job has ended: {state}"))
        self._stopping.job_ended(state)
        self._lifecycle.move(state)
        self._services.provider.ensure(0)
        for slot in self._slots:
            self._services.lines.send(slot, messages.EndSlot(job_is_over=True))
        for node in self._nodes():
            if node.kind is NodeKind.SINK:
                node.connector.job_ended(self._board.failure)
            elif node.kind is NodeKind.SOURCE:
                node.connector.job_ended()

    # Failures.

    def _fail(self, cause: CutwaterError) -> None:
        """The attempt can't go on: restart from the last snapshot, or give up."""
        if self.ended or self._lifecycle.state is JobState.RESTARTING:
            return
        self._board.failed(self._attempt.number if self._attempt else 0, cause)
        self._stop_attempt()
        self._rescaling.attempt_failed(cause)
        if not cause.retryable:
            self._give_up(cause)
            return
        raised = str(cause) if isinstance(cause, UserFunctionError) else ""
        match self._restart.failed(self._clock.now_seconds(), raised):
            case RestartAfter(delay_seconds):
                self._lifecycle.move(JobState.RESTARTING)
                self.after("restart", delay_seconds, self._begin_attempt)
            case GiveUp(reason):
                self._give_up(cause, reason)

    def _give_up(self, cause: CutwaterError, reason: str = "") -> None:
        self._board.gave_up(cause, reason)
        self._end(JobState.FAILED)

    def _stop_attempt(self) -> None:
        attempt = self._attempt
        self._deadlines.clear()
        for source in self._sources.values():
            source.stop()
        if self._mode is CheckpointMode.NONE:
            self._progress.keep(self._sources.values())
        self._sources = {}
        self._aligned = None
        if attempt is not None:
            self._attempt = None
            self._checkpoints.stop()
            for slot in attempt.slots:
                self._services.lines.send(slot, messages.DropAttempt(attempt.number))
                self._roster.told_to_drop(slot, attempt.number, self._clock.now_seconds())

    def _slot_lost(self, slot: SlotId, reason: str) -> None:
        known = self._forget_slot(slot)
        if known is not None and self._attempt is not None and slot in self._attempt.slots:
            ran = ", ".join(map(str, self._attempt.tasks_in(slot)))
            detail = f"{reason}; it ran {ran}"
            self._fail(OperationsError(f"slot {slot} (process {known.pid} on {known.host}) was lost", detail=detail))

    def _slot_held(self, slot: SlotId, seconds: float) -> None:
        tasks = self._attempt.tasks_in(slot) if self._attempt is not None else ()
        self._board.warn(
            f"slot {slot} has not answered for {seconds:.0f} s, though its process runs: a call in one of its tasks "
            f"({', '.join(map(str, tasks))}) holds the interpreter (the GIL). Let it work in smaller portions"
        )

    def _pass_over_restored(self, cause: SnapshotDamagedError) -> CutwaterError:
        """The next attempt starts from an older snapshot; one that the user named has no older one."""
        problem = f"{cause.fact}: {cause.detail}"
        checkpoint = self._recovered.own_checkpoint if self._recovered is not None else None
        if checkpoint is not None:
            self._history = replace(self._history, damaged=(*self._history.damaged, (int(checkpoint), problem)))
            return cause
        return cause if self._history.restore_path is None else damaged_at(self._history.restore_path, problem)

    def _suspect(self, cause: CutwaterError) -> None:
        self.after("suspicion", SUSPICION_SECONDS, lambda: self._fail(cause))

    def _forget_slot(self, slot: SlotId) -> _Slot | None:
        self._roster.lost(slot)
        self._holding_plan.discard(slot)
        return self._slots.pop(slot, None)

    def _replace_slot(self, slot: SlotId, reason: str) -> None:
        """Its process lives, but is of no use: it is told to end, and counted on no more."""
        self._forget_slot(slot)
        self._board.warn(f"slot {slot} is replaced: {reason}")
        self._services.lines.hang_up(slot)
        self._services.provider.replace(slot)

    def _write_off_slots(self, now_seconds: float) -> bool:
        stuck = self._roster.write_off(now_seconds)
        for slot, leaving in stuck.items():
            waited = now_seconds - leaving.since_seconds
            self._replace_slot(slot, f"it has not dropped attempt {leaving.attempt} in {waited:.0f} s, and may hang")
        if stuck and "slots" in self._deadlines:  # the wait for others begins now
            self.after("slots", self.plan.options.slot_timeout_seconds, self._give_up_waiting)
        return bool(stuck)

    def _give_up_waiting(self) -> None:
        needed = self.plan.graph.slots_needed
        # Slots are not what is missing when the recovery takes longer: a sink may wait for a server that is gone, and
        # knows how long.
        if self._roster.leaving or len(self._roster.free) >= needed:
            self.after("slots", self.plan.options.slot_timeout_seconds, self._give_up_waiting)
            return
        self._fail(
            SlotsMissingError(
                f"job {self.plan.name!r} needs {needed} slots and has {len(self._slots)}",
                detail=self._services.provider.shortage(),
                hint="fix the problem above, free cores, lower the parallelism, or raise slot_timeout",
            )
        )

    def _look_at_deploying(self) -> None:
        """Every few seconds, so that the status says what the deployment waits for."""
        assert self._attempt is not None
        now = self._clock.now_seconds()
        overdue = self._attempt.deploying.overdue(now)
        if not overdue:
            overdue_at = self._attempt.deploying.overdue_at() or now
            self.after("deploy", min(DEPLOYING_TOLD_SECONDS, overdue_at - now), self._look_at_deploying)
            return
        for slot, operator in overdue:
            self._replace_slot(slot, f'operator "{operator}" did not open in time' if operator else "it did not answer")
        slot, operator = overdue[0]
        self._fail(
            OperationsError(
                f'operator "{operator}" did not open in slot {slot}' if operator else f"slot {slot} did not deploy",
                detail=f"{len(overdue)} slots have not gone on for {self.plan.options.deploy_timeout_seconds:g} s",
                hint="if it needs longer to open or to restore, raise deploy_timeout",
            )
        )

    # Messages of slots.

    def _handle(self, slot: SlotId, message: messages.FromSlot) -> None:
        match message:
            case messages.SlotRegistered():
                self._slots[slot] = _Slot(message.address, message.host, message.pid)
                self._roster.registered(slot)
                self._deploy_if_ready()
                self._rescaling.slot_registered()
            case messages.AttemptDropped():
                self._roster.dropped(slot, message.attempt)
                self._deploy_if_ready()
            case messages.MetricsReported():
                self._metrics_reported(slot, message.metrics)
            case messages.LinesLogged():
                pass  # the job's log takes it before it comes here
            case _:
                attempt = self._attempt
                if attempt is not None and attempt.may_say(slot, message):
                    self._handle_of_attempt(slot, attempt, message)

    def _metrics_reported(self, slot: SlotId, metrics: SlotMetrics) -> None:
        attempt = self._attempt
        if attempt is not None and metrics.attempt == attempt.number and slot in attempt.slots:
            self._board.metrics(slot, metrics)
            if self._aligned is not None:
                self._aligned.advanced(metrics)

    def _handle_of_attempt(self, slot: SlotId, attempt: Attempt, message: messages.OfAttempt) -> None:
        match message:
            case messages.OperatorOpening():
                self._holding_plan.add(slot)
                attempt.deploying.opening(slot, operator=message.operator, now_seconds=self._clock.now_seconds())
            case messages.AttemptDeployed():
                if attempt.deployed(slot, message.restore_seconds):
                    self._start_attempt(attempt)
            case messages.FirstRecordProcessed():
                self._board.first_record()
            case messages.SplitRequested():
                if (source := self._sources.get(message.operator)) is not None:
                    source.requested(message.subtask)
            case messages.SplitsFinished():
                if (source := self._sources.get(message.operator)) is not None:
                    source.finished(message.splits)
            case messages.SplitProgressed():
                self._progress.advanced(message)
                self._services.lines.send(
                    slot,
                    messages.ProgressConfirmed(attempt.number, message.operator, message.subtask, message.sequence),
                )
            case messages.SnapshotWritten():
                self._checkpoints.written(message)
            case messages.SnapshotRefused():
                self._checkpoints.refused(message)
            case messages.TaskFinished():
                if self._aligned is not None:
                    self._aligned.finished(message.task)
                if attempt.finished(message.task):
                    self._all_tasks_finished()
            case messages.TaskCommitted():
                attempt.committed(message.task, message.checkpoint)
                self._finish_if_over()
            case messages.TaskFailed():
                cause = message.error.to_error()
                if isinstance(cause, SnapshotDamagedError):
                    cause = self._pass_over_restored(cause)
                self._suspect(cause) if message.peer_lost else self._fail(cause)
            case messages.ConnectorReport():
                self._connector_reports(message)
            case _:
                assert_never(message)

    def _nodes(self) -> Iterator[LogicalNode]:
        return (node for vertex in self.plan.graph.vertices for node in vertex.operators)

    def _connector_reports(self, report: messages.ConnectorReport) -> None:
        for node in self._nodes():
            if node.uid == report.operator:
                node.connector.receive(report.value)

    # What checkpointing asks of the job.

    def tell_all(self, message: messages.FromCoordinator) -> None:
        if self._attempt is not None:
            for slot in self._attempt.slots:
                self._services.lines.send(slot, message)

    def source_states(self) -> dict[str, bytes]:
        return {operator: source.snapshot() for operator, source in self._sources.items()}

    def checkpoint_completed(self, checkpoint: CheckpointId, kind: CheckpointKind) -> None:
        if kind is CheckpointKind.FINAL and self._attempt is not None:
            self._attempt.final = checkpoint
            # A job without sinks has nothing to wait for.
            self.post(self._finish_if_over)

    def attempt_failed(self, attempt: AttemptNumber, cause: CutwaterError) -> None:
        if self._attempt is not None and self._attempt.number == attempt:
            self._fail(cause)

    def checkpoints_settled(self) -> None:
        self._finish_if_over()

    def request_answered(self, request: str, path: str, reason: str | None) -> None:
        error = None if reason is None else OperationsError("the snapshot that was asked for failed", detail=reason)
        self._requests.answer(request, path, error)

    # What stopping asks of the job.

    def stop_sources(self, *, drain: bool) -> None:
        if self._attempt is not None and self._attempt.started:
            self.tell_all(messages.StopSources(self._attempt.number, drain))

    def take_savepoint(self, target: str, answer: Answer) -> None:
        if self._mode is CheckpointMode.NONE:
            answer("", _no_savepoints())
        else:
            self._checkpoints.request(CheckpointKind.SAVEPOINT, self._requests.add("savepoint", answer), target=target)

    def take_final_checkpoint(self) -> None:
        self._checkpoints.take_final()

    def last_savepoint_failed(self, error: CutwaterError) -> None:
        if not self.ended and self._attempt is not None:
            # It goes back to its last checkpoint, and on.
            self._fail(error)

    # What rescaling asks of the job.

    def slots_registered(self) -> int:
        return len(self._slots)

    def want_slots(self, plan: JobPlan) -> None:
        needed = max(plan.graph.slots_needed, self.plan.graph.slots_needed)
        self._services.provider.ensure(needed + plan.options.spare_slots)

    def shortage(self) -> str:
        return self._services.provider.shortage()

    def take_checkpoint(self, answer: Answer) -> None:
        if self._mode is CheckpointMode.NONE:
            answer("", ConfigurationError("a job without checkpoints can't take one", hint="set Checkpoints(every=…)"))
            return
        self._checkpoints.request(CheckpointKind.CHECKPOINT, self._requests.add("checkpoint", answer))

    def go_on_with(self, plan: JobPlan) -> None:
        self.post(lambda: self._go_on_with(plan))

    def _go_on_with(self, plan: JobPlan) -> None:
        if self._lifecycle.state is not JobState.RUNNING:
            return  # it has failed since then, or has been cancelled
        self._stop_attempt()
        self.plan = self._checkpoints.plan = plan
        self._board.rescaled(plan)
        self._pickled_plan = cloudpickle.dumps(plan)
        self._holding_plan.clear()
        self.want_slots(plan)
        for slot in list(self._slots)[plan.graph.slots_needed + plan.options.spare_slots :]:
            self._services.lines.send(slot, messages.EndSlot(job_is_over=False))
            self._forget_slot(slot)
        self._lifecycle.move(JobState.RESTARTING)
        self._begin_attempt()

    # Small things.

    def after(self, name: str, seconds: float, work: Callable[[], None]) -> None:
        self._deadlines[name] = (self._clock.now_seconds() + seconds, work)

    def forget(self, name: str) -> None:
        self._deadlines.pop(name, None)

    def _publish_status(self) -> None:
        self._board.update(
            self._lifecycle.state,
            self._attempt,
            self._slots,
            self._waiting_for(),
            under_way=self._checkpoints.under_way(),
        )
        for listener in self._services.listeners:
            listener(self._board.status)

    def _waiting_for(self) -> str:
        state, needed = self._lifecycle.state, self.plan.graph.slots_needed
        if state is JobState.WAITING_FOR_SLOTS and len(self._slots) < needed:
            return self._services.provider.shortage()
        if state is JobState.WAITING_FOR_SLOTS and len(self._roster.free) < needed:
            return f"slots {', '.join(self._roster.leaving)} to drop the last attempt"
        if state is JobState.DEPLOYING and self._attempt is not None:
            return self._attempt.deploying.waiting_for(self._clock.now_seconds())
        return ""


def _no_savepoints() -> CutwaterError:
    return ConfigurationError("a job without checkpoints can't take a savepoint")


def _has_sink(vertex: Any) -> bool:
    return any(node.kind is NodeKind.SINK for node in vertex.operators)


def _as_ours(error: BaseException | None) -> CutwaterError:
    if isinstance(error, CutwaterError):
        return error
    return InternalError("the coordinator failed", detail=f"{type(error).__name__}: {error}")

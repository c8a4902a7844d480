"""What does a slot do, turn after turn?

A slot hosts one task of every chain. Its loop has one thread: it handles messages, gives each task a turn, and rests
when none has work. It keeps its process, its imports and its job's code from one attempt to the next.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, assert_never

import cloudpickle

from cutwater.errors import ChannelBrokenError
from cutwater.graph.plan import JobPlan
from cutwater.operators.metrics import SlotMetrics
from cutwater.operators.user_code import USER_FAILURES, exit_error
from cutwater.protocol.ids import AttemptNumber, SlotId, TaskId
from cutwater.protocol.lifecycle import TaskState
from cutwater.protocol.splits import Split
from cutwater.runtime import messages
from cutwater.runtime.chain import not_loaded
from cutwater.runtime.deployment import Deployment, SlotServices
from cutwater.runtime.event_loop import EventLoopThread
from cutwater.runtime.exhaustion import explained
from cutwater.runtime.failures import report_of
from cutwater.runtime.seams import Background, Clock, EventLoopMaker, OwnThreadMaker, SlotLink, Transport
from cutwater.runtime.task import Task
from cutwater.runtime.threads import OwnBackgroundThread
from cutwater.runtime.turn import Turn
from cutwater.snapshots.local_files import LocalFiles
from cutwater.snapshots.storage import Storage

METRICS_SECONDS = 0.25


class Slot:
    """One slot, from registration to its end."""

    def __init__(
        self,
        slot_id: SlotId,
        *,
        clock: Clock,
        link: SlotLink,
        transport: Transport,
        background: Background,
        opening: Background,
        storage: Callable[[str], Storage],
        wake: Callable[[], None],
        event_loop: EventLoopMaker = EventLoopThread,
        own_thread: OwnThreadMaker = OwnBackgroundThread,
    ) -> None:
        """`opening`: what blocks there holds up nothing but itself. `wake`: from any thread, has `step` called soon."""
        self.id = slot_id
        self.ended = False
        self.turn = Turn()
        self._clock = clock
        self._link = link
        self._wake = wake
        self._services = SlotServices(
            clock,
            transport,
            background,
            link.send,
            self._report,
            self._send_metrics,
            storage,
            opening=opening,
            event_loop=event_loop,
            own_thread=own_thread,
            wake=wake,
            post=self._post_of,
            guard=self._guard_of,
            turn=self.turn,
        )
        self._mailbox: deque[Callable[[], None]] = deque()
        self._plan: JobPlan | None = None
        self._local_files: LocalFiles | None = None
        self._deployment: Deployment | None = None
        self._running: list[Task] = []
        self._first_record_reported = False
        self._turn_ended_seconds = clock.now_seconds()
        self._metrics_at_seconds = self._turn_ended_seconds

    # What the outside calls, from any thread.

    def deliver(self, message: messages.FromCoordinator) -> None:
        self.post(lambda: self._handle(message))

    def post(self, work: Callable[[], None]) -> None:
        self._mailbox.append(work)

    def _post_of(self, attempt: AttemptNumber, task: TaskId, work: Callable[[], None]) -> None:
        self.post(lambda: self._guard_of(attempt, task, work))
        self._wake()

    # The loop.

    def step(self) -> bool:
        """One turn: messages first, then every task; False: nothing was there to do."""
        worked = False
        while self._mailbox and not self.ended:
            work = self._mailbox.popleft()
            self._guard(None, work)
            worked = True
        for task in self._running:
            if self._step_task(task):
                worked = True
            if not self._running:
                break
        self._turn_ended_seconds = self._clock.now_seconds()
        self._look_around_if_due()
        return worked

    def wake_at(self) -> float | None:
        times = [time for task in self._running if (time := task.wake_at()) is not None]
        if self._running:
            times.append(self._metrics_at_seconds)
        return min(times, default=None)

    def _step_task(self, task: Task) -> bool:
        started = self._clock.now_seconds()
        task.turn_begins(started)
        progressed: list[bool] = []
        self._guard(task.id, lambda: progressed.append(task.step()))
        if not progressed:
            return False  # it failed, and the deployment is gone
        ended = self._clock.now_seconds()
        task.turn_ends(ended, progressed=progressed[0])
        if not self._first_record_reported and task.has_processed:
            self._report_first_record()
        return progressed[0]

    def _report_first_record(self) -> None:
        assert self._deployment is not None
        self._first_record_reported = True
        self._link.send(messages.FirstRecordProcessed(self._deployment.attempt))

    # Messages of the coordinator.

    def _handle(self, message: messages.FromCoordinator) -> None:
        match message:
            case messages.DeployAttempt():
                self._deploy(message)
            case messages.DropAttempt(attempt):
                self._drop_attempt(attempt)
            case messages.EndSlot(job_is_over):
                self._drop()
                if self._local_files is not None:
                    self._local_files.remove(job_is_over=job_is_over)
                self.ended = True
            case _:
                deployment = self._deployment
                if deployment is not None and message.attempt == deployment.attempt:
                    self._handle_of_attempt(deployment, message)

    def _handle_of_attempt(self, deployment: Deployment, message: messages.ToAttempt) -> None:
        match message:
            case messages.StartAttempt():
                deployment.connect()
                self._running = list(deployment.tasks.values())
            case messages.TriggerCheckpoint():
                self._for_each(
                    deployment, lambda task: task.trigger(message.checkpoint, message.triggered_ms, message.savepoint)
                )
            case messages.CheckpointCompleted():
                deployment.completed(message.checkpoint)
                self._for_each(deployment, lambda task: task.completed(message.checkpoint))
            case messages.CheckpointAborted():
                self._for_each(deployment, lambda task: task.cancel(message.checkpoint))
            case messages.SplitsAssigned():
                splits = [Split(*pair) for pair in message.splits]
                task = deployment.tasks[TaskId(message.operator, message.subtask)]
                self._guard(task.id, lambda: task.assign(splits, no_more=message.no_more))
            case messages.ProgressConfirmed():
                deployment.tasks[TaskId(message.operator, message.subtask)].confirm_progress(message.sequence)
            case messages.TimeLimited():
                deployment.tasks[TaskId(message.operator, message.subtask)].limit_time(message.timestamp_ms)
            case messages.StopSources():
                self._for_each(deployment, lambda task: task.stop_reading(drain=message.drain))
            case _:
                assert_never(message)

    def _drop_attempt(self, attempt: AttemptNumber) -> None:
        """Its tasks may be gone already: they failed here."""
        if self._deployment is not None and self._deployment.attempt == attempt:
            self._drop_quietly()
        self._link.send(messages.AttemptDropped(attempt))

    def _for_each(self, deployment: Deployment, work: Callable[[Task], None]) -> None:
        for task in deployment.tasks.values():
            self._guard(task.id, lambda task=task: work(task))  # type: ignore[misc]
            if self._deployment is not deployment:
                return

    def _deploy(self, order: messages.DeployAttempt) -> None:
        self._drop()
        started = self._clock.now_seconds()
        try:
            self._open(order)
        except USER_FAILURES as error:
            self._tell_failure(order.attempt, order.tasks[0], error)
            self._drop_quietly()
            return
        restore_seconds = self._clock.now_seconds() - started
        self._link.send(messages.AttemptDeployed(order.attempt, restore_seconds))

    def _open(self, order: messages.DeployAttempt) -> None:
        if order.job:
            self._plan = load_plan(order.job)
        assert self._plan is not None, "the coordinator sends the job until it has been loaded here"
        self._first_record_reported = False
        self.turn.attempt = order.attempt
        if self._local_files is None:
            self._local_files = LocalFiles(self._plan.options.local_folder, self._plan.job_id)
        self._deployment = Deployment(self._plan, order, self._services, self._local_files)
        self._deployment.open()

    def _drop(self) -> None:
        deployment, self._deployment, self._running = self._deployment, None, []
        if deployment is not None:
            deployment.close()

    # Failures.

    def _guard(self, task: TaskId | None, work: Callable[[], None]) -> None:
        """A failure in a task ends the attempt here and is told to the coordinator; the slot lives on."""
        self.turn.task = task
        try:
            work()
        except USER_FAILURES as error:
            self._fail(task, error)

    def _guard_of(self, attempt: AttemptNumber, task: TaskId, work: Callable[[], None]) -> None:
        """The same for work that was begun by an attempt that may be gone: its failure disturbs no other."""
        self.turn.task = task
        try:
            work()
        except USER_FAILURES as error:
            if self._deployment is not None and self._deployment.attempt == attempt:
                self._fail(task, error)

    def _fail(self, task: TaskId | None, error: Exception | SystemExit) -> None:
        deployment = self._deployment
        if deployment is None:
            return
        blamed = task or next(iter(deployment.tasks))
        deployment.tasks[blamed].lifecycle.move(TaskState.FAILED)
        self._tell_failure(deployment.attempt, blamed, error)
        self._drop_quietly()

    def _tell_failure(self, attempt: AttemptNumber, task: TaskId, failure: Exception | SystemExit) -> None:
        error = exit_error(failure, task) if isinstance(failure, SystemExit) else explained(failure)
        peer_lost = isinstance(error, ChannelBrokenError)
        self._link.send(messages.TaskFailed(attempt, task, report_of(error, task), peer_lost))

    def _drop_quietly(self) -> None:
        try:
            self._drop()
        except USER_FAILURES:  # the cause is reported already; what fails while closing adds nothing
            self._deployment = None

    def _report(self, attempt: int, operator: str, value: Any) -> None:
        self._link.send(messages.ConnectorReport(attempt, operator, value))  # type: ignore[arg-type]

    def _look_around_if_due(self) -> None:
        """A few times a second: tells what the tasks counted, and looks for connections that hang."""
        now = self._turn_ended_seconds
        if self._deployment is None or now < self._metrics_at_seconds:
            return
        self._metrics_at_seconds = now + METRICS_SECONDS
        self._send_metrics()
        if self._running:
            connections = self._deployment.connections
            self._guard(None, lambda: connections.look(now))

    def _send_metrics(self) -> None:
        if self._deployment is None:
            return
        for task in self._running:
            task.metrics.queued_elements = len(task.inputs)
        metrics = SlotMetrics(self._deployment.attempt, [task.chain.told() for task in self._running])
        self._link.send(messages.MetricsReported(metrics))


def load_plan(job: bytes) -> JobPlan:
    """To load a job is to import its modules: that is the user's code, and depends on the host."""
    try:
        plan: JobPlan = cloudpickle.loads(job)
    except Exception as error:
        raise not_loaded("the job", error) from error
    return plan

"""What keeps a job from going faster?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from cutwater.diagnosis.finding import Case, Finding, Severity, seconds, share
from cutwater.diagnosis.load import (
    BACKPRESSURED_SHARE,
    SATURATED_SHARE,
    busiest_operator,
    busy_of_slots,
    chain_of,
    has_source,
    is_settled,
    knows_lag,
    lag_of,
    named,
    rate_of,
    receivers_of,
    records_of,
    senders_of,
    shares_of,
    tasks_of,
)
from cutwater.status import ChainStatus, JobStatus, OperatorStatus, TaskStatus

#: Operations that call a Python function of the user's for each record.
ROW_FUNCTIONS = frozenset(
    {
        "map",
        "flat_map",
        "filter",
        "process",
        "key_by",
        "reduce",
        "aggregate",
        "window_process",
        "window_reduce",
        "window_aggregate",
        "interval_join",
        "assign_timestamps",
    }
)
#: A task that gets so many times what the others get on average has a hot key, or a large split.
SKEWED_TIMES = 3.0
#: Fewer records say nothing about how they are spread.
RECORDS_MIN = 1_000
#: The state of a hot key, in bytes and as a part of all.
SKEWED_STATE_BYTES = 1 << 20
SKEWED_STATE_SHARE = 0.25
#: To read what waits takes so long at the present rate.
LAG_SECONDS = 60.0
IDLE_SHARE = 0.9


def bottleneck(case: Case) -> Iterator[Finding]:
    """Slots that are busy all the time, and what keeps them so."""
    status = case.now
    if not is_settled(status):
        return
    busy = busy_of_slots(status)
    blamed: dict[tuple[str, str], list[TaskStatus]] = defaultdict(list)
    for slot, part in busy.items():
        if part >= SATURATED_SHARE:
            task = max((one for one in status.tasks if one.slot == slot), key=lambda one: shares_of(one).busy)
            chain = chain_of(status, task)
            operator = busiest_operator(task, chain)
            blamed[chain.uid if chain else task.task, operator.uid if operator else ""].append(task)
    for (_, uid), tasks in blamed.items():
        worst = max(tasks, key=lambda one: shares_of(one).busy)
        yield _bottleneck(worst, len(tasks), chain_of(status, worst), uid, status)


def _bottleneck(task: TaskStatus, slots: int, chain: ChainStatus | None, uid: str, status: JobStatus) -> Finding:
    operator = next((one for one in chain.operators if one.uid == uid), None) if chain is not None else None
    of = len(busy_of_slots(status))
    where = "its slot" if of == 1 else f"{slots} of {of} slots"
    why = ": a Python function that is called for every record" if _is_row_function(operator) else ""
    return Finding(
        Severity.WARNING,
        f"{named(operator, chain, task.task)} is the bottleneck: it keeps {where} busy{why}",
        f"{task.task} is busy {share(shares_of(task).busy)} of the time, its slot "
        f"{share(busy_of_slots(status)[task.slot])}{_part_of_task(task, uid)}",
        _advice(operator, chain),
        task.task,
    )


def _part_of_task(task: TaskStatus, uid: str) -> str:
    part = next((one.busy_share for one in task.operators if one.operator == uid), 0.0)
    return f"; this operator alone {share(part)}" if part else ""


def _is_row_function(operator: OperatorStatus | None) -> bool:
    return operator is not None and operator.kind == "operator" and operator.name.partition("(")[0] in ROW_FUNCTIONS


def _advice(operator: OperatorStatus | None, chain: ChainStatus | None) -> str:
    if _is_row_function(operator):
        return (
            "use map_batches or column expressions, which do many records in one call; if the function waits for "
            "something, async_map; else more slots: `cutwater rescale`"
        )
    if operator is not None and operator.kind == "source":
        return "read fewer columns or a cheaper format, or let more tasks read: `cutwater rescale`"
    return "give it more slots: `cutwater rescale`"


def held_up_by_its_end(case: Case) -> Iterator[Finding]:
    """A task waits for room although its receivers have some: its sink, or what it asks, is slow."""
    status = case.now
    if not is_settled(status):
        return
    busy = busy_of_slots(status)
    for chain in status.graph.chains:
        waiting = [
            task
            for task in tasks_of(status, chain.uid)
            if shares_of(task).backpressured >= BACKPRESSURED_SHARE and busy.get(task.slot, 0.0) < SATURATED_SHARE
        ]
        if not waiting or any(_holds_up(status, receiver, busy) for receiver in receivers_of(status, chain.uid)):
            continue
        worst = max(waiting, key=lambda task: shares_of(task).backpressured)
        yield from _slow_end(chain, worst)


def _holds_up(status: JobStatus, chain: str, busy: dict[str, float]) -> bool:
    """The tasks of this chain explain why those above it wait."""
    tasks = tasks_of(status, chain)
    return any(shares_of(task).backpressured >= BACKPRESSURED_SHARE for task in tasks) or any(
        busy.get(task.slot, 0.0) >= SATURATED_SHARE for task in tasks
    )


def _slow_end(chain: ChainStatus, task: TaskStatus) -> Iterator[Finding]:
    calls = [one for one in chain.operators if one.name.startswith("async_map")]
    sinks = [one for one in chain.operators if one.kind == "sink"]
    found = shares_of(task)
    evidence = (
        f"{task.task} waits for room {share(found.backpressured)} of the time, and is busy only {share(found.busy)}"
    )
    if sinks:
        yield Finding(
            Severity.WARNING,
            f"the sink {named(sinks[0], chain, task.task)} is slow: it takes records more slowly than they come",
            evidence,
            "see what the server behind it is doing; larger batches, or more tasks that write, may help",
            task.task,
        )
    elif calls:
        yield Finding(
            Severity.WARNING,
            f"the calls of {named(calls[0], chain, task.task)} are slow: as many as may be are under way all the time",
            evidence,
            "raise `capacity`, or see why the answers take so long",
            task.task,
        )
    else:
        yield Finding(
            Severity.WARNING,
            f"{named(None, chain, task.task)} waits for room below it",
            evidence,
            "the network between the executors may be slow: compare with a job on one machine",
            task.task,
        )


def skewed_records(case: Case) -> Iterator[Finding]:
    """One task gets far more than the others of its chain."""
    status = case.now
    if not is_settled(status):
        return
    for chain in status.graph.chains:
        tasks = tasks_of(status, chain.uid)
        if len(tasks) < 2 or sum(map(records_of, tasks)) < RECORDS_MIN:
            continue
        amount = rate_of if all(map(rate_of, tasks)) else records_of
        hot = max(tasks, key=amount)
        others = (sum(map(amount, tasks)) - amount(hot)) / (len(tasks) - 1)
        by_key = any(edge.partitioning == "hash" for edge in status.graph.edges if edge.receiver == chain.uid)
        if others > 0 and amount(hot) >= SKEWED_TIMES * others and (by_key or has_source(chain)):
            yield _skewed(status, chain, hot, amount(hot) / others, by_key=by_key)


def _skewed(status: JobStatus, chain: ChainStatus, hot: TaskStatus, times: float, *, by_key: bool) -> Finding:
    hurts = busy_of_slots(status)[hot.slot] >= SATURATED_SHARE or any(
        shares_of(task).backpressured >= BACKPRESSURED_SHARE
        for sender in senders_of(status, chain.uid)
        for task in tasks_of(status, sender)
    )
    why = "a few keys have most of the records" if by_key else "its splits are larger than the others"
    help_ = (
        "aggregate before key_by, or add something to the key that spreads it and aggregate twice"
        if by_key
        else "make the splits more even, or put .rebalance() behind the source"
    )
    return Finding(
        Severity.WARNING if hurts else Severity.INFO,
        f"{hot.task} gets far more records than the other tasks of {named(None, chain, hot.task)}: {why}",
        f"{times:.1f} times as many as the others on average",
        help_,
        hot.task,
    )


def skewed_state(case: Case) -> Iterator[Finding]:
    """One key group holds much of an operator's state."""
    for state in case.now.operator_states:
        chain = _chain_with(case.now, state.operator)
        part = state.largest_group_bytes / state.size_bytes if state.size_bytes > 0 else 0.0
        if state.largest_group is None or state.size_bytes < SKEWED_STATE_BYTES or part < SKEWED_STATE_SHARE:
            continue
        if chain is None or chain.parallelism < 2:
            continue
        yield Finding(
            Severity.INFO,
            f'key group {state.largest_group} of "{state.operator}" is much larger than the others: '
            "a few keys have most of the state",
            f"it has {share(part)} of {state.size_bytes:,} bytes",
            "see whose it is with `cutwater state`, and let old state expire: ttl=…",
        )


def _chain_with(status: JobStatus, operator: str) -> ChainStatus | None:
    return next(
        (chain for chain in status.graph.chains if any(one.uid == operator for one in chain.operators)),
        None,
    )


def too_few_splits(case: Case) -> Iterator[Finding]:
    """Some tasks of a source have never read anything."""
    status = case.now
    if not is_settled(status):
        return
    for chain in status.graph.chains:
        tasks = tasks_of(status, chain.uid)
        if not has_source(chain) or senders_of(status, chain.uid):
            continue
        unused = [
            task for task in tasks if not records_of(task) and not task.lag and shares_of(task).idle >= IDLE_SHARE
        ]
        used = [task for task in tasks if records_of(task)]
        if not unused or not used:
            continue
        limits = any(busy_of_slots(status)[task.slot] >= SATURATED_SHARE for task in used)
        yield Finding(
            Severity.WARNING if limits else Severity.INFO,
            f"only {len(used)} of the {len(tasks)} tasks of {named(None, chain, '')} read: there are too few splits",
            f"{', '.join(task.task for task in unused[:4])}{' …' if len(unused) > 4 else ''} never got a record",
            "more partitions, files or splits; or .rebalance() behind the source, so that all tasks get a share",
            unused[0].task,
        )


def falling_behind(case: Case) -> Iterator[Finding]:
    """Records wait in the source: more and more of them, or for long."""
    status, earlier = case.now, case.earlier
    if not is_settled(status) or not knows_lag(status):
        return
    lag = lag_of(status)
    worst = max(status.tasks, key=lambda task: sum(task.lag.values()))
    rate = sum(rate_of(task) for task in status.tasks if task.lag)
    to_read = f"; at the present rate they take {seconds(lag / rate)}" if rate > 0 else ""
    if earlier is not None and earlier.attempt == status.attempt and knows_lag(earlier):
        before, passed = lag_of(earlier), (status.as_of_ms - earlier.as_of_ms) / 1000
        if passed > 0 and lag - before > max(RECORDS_MIN, before / 20):
            yield Finding(
                Severity.WARNING,
                "the job falls behind: records arrive faster than it reads them",
                f"{lag:,} records wait, {lag - before:,} more than {seconds(passed)} ago{to_read}",
                "see what limits it, above or below; more slots: `cutwater rescale`",
                worst.task,
            )
            return
    if rate > 0 and lag / rate >= LAG_SECONDS:
        yield Finding(
            Severity.INFO,
            "the job is behind its sources",
            f"{lag:,} records wait{to_read}",
            "it catches up if fewer arrive than it reads; else more slots: `cutwater rescale`",
            worst.task,
        )


def source_is_the_limit(case: Case) -> Iterator[Finding]:
    """Records wait to be read, and no task has much to do."""
    status = case.now
    if not is_settled(status) or lag_of(status) < RECORDS_MIN:
        return
    busiest = max(busy_of_slots(status).values(), default=0.0)
    held = any(shares_of(task).backpressured >= BACKPRESSURED_SHARE for task in status.tasks)
    if busiest >= 0.5 or held:
        return
    worst = max(status.tasks, key=lambda task: sum(task.lag.values()))
    yield Finding(
        Severity.WARNING,
        f"the source {named(None, chain_of(status, worst), worst.task)} is the limit: its server gives records slowly",
        f"{lag_of(status):,} records wait, and the busiest slot is busy only {share(busiest)} of the time",
        "see the server and the network to it; more splits, or larger fetches, may help",
        worst.task,
    )

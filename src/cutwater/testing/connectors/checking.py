"""Does a connector keep what it promises, whatever happens?"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cutwater.connectors.settings import check_positive
from cutwater.errors import ConfigurationError, CutwaterError
from cutwater.graph.guarantees import Guarantee
from cutwater.testing.connectors.checks import Check, PairCheck, SinkCheck, SourceCheck
from cutwater.testing.connectors.faults import ALL, Fault
from cutwater.testing.connectors.jobs import RESTARTS_MAX
from cutwater.testing.connectors.judging import Observation, judge, repetitions
from cutwater.testing.connectors.reports import GuaranteeBroken, Report, TrialReport
from cutwater.testing.connectors.subjects import SinkSubject, SourceSubject
from cutwater.testing.connectors.trials import Deeds, Trial
from cutwater.testing.connectors.watching import TrialFailed

RECORDS = 100_000
FLOW_SECONDS = 4.0
#: For three slots, for those that replace killed ones, and for what is left of a driver that was killed.
CORES = 6


def check_sink(
    subject: SinkSubject,
    *,
    records: int = RECORDS,
    faults: Iterable[Fault] = ALL,
    seed: int = 0,
    flow_seconds: float = FLOW_SECONDS,
    spark: Any = None,
) -> Report:
    """Runs a job into the sink for each of the faults; raises `GuaranteeBroken` unless what `Sink.delivery` says holds.

    `flow_seconds`: how long a job lasts, at least, while things are done to it. `spark`: a session with six cores or
    more; left out, the active one, or one that is made for this check.
    """
    return _check(SinkCheck(subject), records, faults, seed, flow_seconds, spark)


def check_source(
    subject: SourceSubject,
    *,
    records: int = RECORDS,
    faults: Iterable[Fault] = ALL,
    seed: int = 0,
    flow_seconds: float = FLOW_SECONDS,
    spark: Any = None,
) -> Report:
    """Runs a job from the source for each of the faults; raises `GuaranteeBroken` unless what `Source.replay` says
    holds.

    The options are those of `check_sink`.
    """
    return _check(SourceCheck(subject), records, faults, seed, flow_seconds, spark)


def check_pair(
    source: SourceSubject,
    sink: SinkSubject,
    *,
    records: int = RECORDS,
    faults: Iterable[Fault] = ALL,
    seed: int = 0,
    flow_seconds: float = FLOW_SECONDS,
    spark: Any = None,
) -> Report:
    """Runs a job from the source through a shuffle to the sink for each of the faults; raises `GuaranteeBroken` unless
    what follows from both holds.

    The options are those of `check_sink`. The server that is struck is the sink's, if it has one.
    """
    return _check(PairCheck(source, sink), records, faults, seed, flow_seconds, spark)


def _check(check: Check, records: int, faults: Iterable[Fault], seed: int, flow_seconds: float, spark: Any) -> Report:
    check_positive("records", records)
    check_positive("flow_seconds", flow_seconds, whole=False)
    wanted = tuple(map(Fault, faults))
    left_out = tuple((fault, reason) for fault in wanted if (reason := _why_not(check, fault)))
    if wanted != ALL and left_out:
        raise ConfigurationError(f"{left_out[0][0].name} can't be tried: {left_out[0][1]}")
    tried = [fault for fault in wanted if not _why_not(check, fault)]
    with _session(spark) as session:
        trials = tuple(_try(check, fault, records, seed, flow_seconds, session) for fault in tried)
    report = Report(check.name, check.guarantee, seed, trials, left_out)
    if not report.passed:
        raise GuaranteeBroken(report)
    return report


def _why_not(check: Check, fault: Fault) -> str:
    if fault.needs_server and check.server is None:
        return "the subject has no server"
    if fault is Fault.POISON and not check.has_poison:
        return "the subject has no poison"
    return ""


def _try(check: Check, fault: Fault, records: int, seed: int, flow_seconds: float, spark: Any) -> TrialReport:
    started = time.monotonic()
    is_poisoned = fault is Fault.POISON

    def run(strikes: Fault, restarts_max: int, *, tolerant: bool = False) -> tuple[str, Sequence[int], Deeds]:
        """Why the job failed, what it left, and what was done to it."""
        with tempfile.TemporaryDirectory(prefix="cutwater-kit-", ignore_cleanup_errors=True) as name:
            folder = Path(name)
            trial = Trial(
                check.job(records, folder, restarts_max, tolerant=tolerant),
                strikes,
                seed=seed,
                spark=spark,
                folder=folder,
                flow_seconds=flow_seconds,
                server=check.server,
                receiver=check.receiver,
                bounded=check.bounded,
            )
            if is_poisoned:
                check.add_poison()
            failure = _failure_of(trial.run_unpaced if strikes is Fault.POISON else trial.run)
            return failure, check.received(folder), trial.deeds

    failure, received, deeds = run(fault, 1 if is_poisoned else RESTARTS_MAX)
    findings, note = _findings(check, fault, failure, received, records, deeds)
    if is_poisoned and check.can_tolerate:
        failure, received, deeds = run(Fault.SLOTS_KILLED, RESTARTS_MAX, tolerant=True)
        # The dead letter is one record more.
        findings += _findings(check, Fault.SLOTS_KILLED, failure, received, records + 1, deeds)[0]
    return TrialReport(
        fault,
        records=records,
        received=len(received),
        repeated=repetitions(received),
        deeds=deeds.counts,
        restarts=deeds.restarts,
        seconds=time.monotonic() - started,
        findings=findings,
        note=note,
    )


def _failure_of(run: Callable[[], None]) -> str:
    """Why the job didn't end well; empty: it did."""
    try:
        run()
    except CutwaterError as error:
        return f"the job failed: {error.in_one_line}"
    except (TrialFailed, TimeoutError) as error:
        return str(error)
    return ""


def _findings(
    check: Check, fault: Fault, failure: str, received: Sequence[int], records: int, deeds: Deeds
) -> tuple[tuple[str, ...], str]:
    """What is wrong, and what is worth a note."""
    if fault is Fault.POISON and not check.skips_poison:
        # A failed job shows a part of the records, or none.
        foreign = judge(Guarantee.AT_MOST_ONCE, Observation(records, received))
        passed_over = () if failure else ("a record that can't be decoded was passed over silently",)
        return (*passed_over, *foreign), failure
    if failure:
        return (failure,), ""
    seen = Observation(
        records,
        received,
        pending=check.pending(),
        too_early=deeds.too_early,
        disturbed=fault not in (Fault.NOTHING, Fault.POISON),
    )
    return judge(check.guarantee, seen), ""


@contextmanager
def _session(spark: Any) -> Iterator[Any]:
    """The one that is given or active, or one of our own."""
    from cutwater.deploy.session import active_spark, embedded_context

    if (found := spark if spark is not None else active_spark()) is not None:
        yield found
        return
    made = embedded_context(CORES)
    try:
        yield made
    finally:
        made.stop()

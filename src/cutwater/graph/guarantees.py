"""How often can a record of this source show up in that sink, whatever fails?

What holds from end to end is a product of three: can the source read again, what do checkpoints promise to state, and
does the sink take back (or never show) what a failed attempt wrote?

| checkpoints   | source         | transactional, write-ahead | idempotent        | fingerprint       | plain         |
|---------------|----------------|----------------------------|-------------------|-------------------|---------------|
| exactly once  | replayable     | exactly once               | exactly once¹     | exactly once²     | at least once |
| exactly once  | redelivered    | at least once⁶             | at least once     | at least once     | at least once |
| exactly once  | not replayable | at most once               | at most once¹     | none³             | none³         |
| at least once | replayable     | at least once              | at least once     | at least once     | at least once |
| at least once | redelivered    | at least once              | at least once     | at least once     | at least once |
| at least once | not replayable | none⁴                      | none              | none              | none          |
| none          | redelivered    | none⁷                      | none              | none              | none          |
| none          | either other   | at most once               | at most once      | at most once      | at most once⁵ |

1. Effectively: a record may be written twice, but the second write replaces the first.
2. Effectively: the receiver drops the repetition, provided that the same input gives the same output.
3. Records read since the last checkpoint are lost, but what they did to the output stays; and restored state (a
   window about to fire) speaks again, without them, so the receiver can't recognise a repetition.
4. Not even at most once: a sender's state may be older than its receiver's, and then it speaks twice.
5. Without checkpoints no input is read a second time (a reader reports its position before it hands records on), and
   state starts empty. So nothing can be written twice, however simple the sink is.
6. A queue delivers again what was not acknowledged, and acknowledgements of a completed checkpoint may be lost.
7. Nothing is ever acknowledged: everything comes again, and what the first time wrote stays.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from cutwater.connectors.contract import Delivery, Replay
from cutwater.errors import ConfigurationError, GuaranteeError
from cutwater.graph.model import LogicalGraph, NodeKind
from cutwater.protocol.modes import CheckpointMode


class Guarantee(StrEnum):
    """How often a record counts in the output. Neither of the middle two is stronger than the other."""

    EXACTLY_ONCE = "exactly_once"
    AT_LEAST_ONCE = "at_least_once"
    AT_MOST_ONCE = "at_most_once"
    NONE = "none"

    def includes(self, other: Guarantee) -> bool:
        """True when this one is at least as strong as the other."""
        return self is other or self is Guarantee.EXACTLY_ONCE or other is Guarantee.NONE

    @property
    def words(self) -> str:
        return "no guarantee" if self is Guarantee.NONE else self.value.replace("_", " ")


@dataclass(frozen=True, slots=True)
class PathGuarantee:
    """What holds from one source to one sink, by their uids, and why."""

    source: str
    sink: str
    guarantee: Guarantee
    reason: str
    #: What to change to get more; empty when there is nothing to want.
    hint: str = ""


def guarantee_of(replay: Replay, mode: CheckpointMode, delivery: Delivery) -> tuple[Guarantee, str]:
    """The guarantee, and the reason as a clause without a capital and a full stop."""
    match mode, replay:
        case CheckpointMode.NONE, Replay.REDELIVERED:
            return Guarantee.NONE, "without checkpoints nothing is acknowledged, so all that was read comes again"
        case CheckpointMode.NONE, _:
            return Guarantee.AT_MOST_ONCE, "without checkpoints, what is under way when a task fails is lost"
        case _, Replay.REDELIVERED:
            return (
                Guarantee.AT_LEAST_ONCE,
                "the source delivers again what was not acknowledged, and can't tell what a checkpoint holds already",
            )
        case CheckpointMode.AT_LEAST_ONCE, Replay.REPLAYABLE:
            return Guarantee.AT_LEAST_ONCE, "checkpoints don't align, so a record may count again after a failure"
        case CheckpointMode.AT_LEAST_ONCE, _:
            return (
                Guarantee.NONE,
                "the source can't read again what a failure lost, and checkpoints that don't align may repeat the rest",
            )
        case _, Replay.NOT_REPLAYABLE:
            return _without_replay(delivery)
        case _:
            return _with_replay(delivery)


def guarantees_of(graph: LogicalGraph, mode: CheckpointMode) -> tuple[PathGuarantee, ...]:
    """One line per source and sink that a path joins, in the order in which they were written."""
    senders: dict[str, list[str]] = {uid: [] for uid in graph.nodes}
    for edge in graph.edges:
        senders[edge.receiver].append(edge.sender)
    table = []
    for sink in graph.nodes.values():
        if sink.kind is not NodeKind.SINK:
            continue
        upstream = _reachable(sink.uid, senders)
        delivery = Delivery(getattr(sink.connector, "delivery", Delivery.PLAIN))
        for source in graph.nodes.values():
            if source.kind is NodeKind.SOURCE and source.uid in upstream:
                replay = Replay(getattr(source.connector, "replay", Replay.NOT_REPLAYABLE))
                guarantee, reason = guarantee_of(replay, mode, delivery)
                hint = _hint(replay, mode, delivery)
                table.append(PathGuarantee(source.uid, sink.uid, guarantee, reason, hint))
    return tuple(table)


def by_sink(paths: Iterable[PathGuarantee]) -> list[tuple[list[str], PathGuarantee]]:
    """Sources that have the same to say of a sink together, with one of their paths; for plans and pictures."""
    sources: dict[tuple[str, Guarantee, str], tuple[list[str], PathGuarantee]] = {}
    for path in paths:
        sources.setdefault((path.sink, path.guarantee, path.reason), ([], path))[0].append(path.source)
    return list(sources.values())


def check_guarantees(paths: Iterable[PathGuarantee], require: Guarantee | str | None) -> None:
    """Raises `GuaranteeError` for the first path that gives less than what is required."""
    if require is None:
        return
    try:
        wanted = Guarantee(require)
    except ValueError:
        raise ConfigurationError(
            f"{require!r} is not a guarantee", hint=f"require one of {', '.join(map(str, Guarantee))}"
        ) from None
    for path in paths:
        if not path.guarantee.includes(wanted):
            raise GuaranteeError(
                f'the job asks for {wanted.words}, but "{path.source}" to "{path.sink}" gives {path.guarantee.words}',
                detail=path.reason,
                hint=path.hint,
            )


def _with_replay(delivery: Delivery) -> tuple[Guarantee, str]:
    match delivery:
        case Delivery.TRANSACTIONAL:
            return Guarantee.EXACTLY_ONCE, "the source reads again, and output shows when its checkpoint is complete"
        case Delivery.WRITE_AHEAD:
            return Guarantee.EXACTLY_ONCE, "the source reads again, and output waits in the snapshot until it counts"
        case Delivery.IDEMPOTENT:
            return Guarantee.EXACTLY_ONCE, "effectively: a record that is written again replaces itself"
        case Delivery.FINGERPRINT:
            return (
                Guarantee.EXACTLY_ONCE,
                "effectively: the receiver drops what it has seen, if the same input gives the same output",
            )
        case Delivery.PLAIN:
            return Guarantee.AT_LEAST_ONCE, "a plain sink can't take back what it wrote after the last checkpoint"


def _without_replay(delivery: Delivery) -> tuple[Guarantee, str]:
    lost = "the source can't read again what came after the last checkpoint"
    match delivery:
        case Delivery.TRANSACTIONAL | Delivery.WRITE_AHEAD:
            return Guarantee.AT_MOST_ONCE, f"{lost}; output without a complete checkpoint is withdrawn with it"
        case Delivery.IDEMPOTENT:
            return Guarantee.AT_MOST_ONCE, f"{lost}; effectively, because what is written again replaces itself"
        case Delivery.FINGERPRINT:
            return Guarantee.NONE, f"{lost}, so repeated output differs and the receiver can't recognise it"
        case Delivery.PLAIN:
            return Guarantee.NONE, f"{lost}, and a plain sink can't take back what it wrote since"


def _hint(replay: Replay, mode: CheckpointMode, delivery: Delivery) -> str:
    changes = []
    if replay is Replay.REDELIVERED:
        changes.append("a source that recognises its records by an id")
    elif replay is not Replay.REPLAYABLE:
        changes.append("a source that can be read again")
    if mode is not CheckpointMode.EXACTLY_ONCE:
        changes.append('Checkpoints(mode="exactly_once")')
    if delivery is Delivery.PLAIN:
        changes.append("a transactional or idempotent sink")
    return f"for exactly once use {' and '.join(changes)}" if changes else ""


def _reachable(start: str, neighbours: dict[str, list[str]]) -> set[str]:
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        uid = waiting.pop()
        if uid not in seen:
            seen.add(uid)
            waiting.extend(neighbours[uid])
    return seen

from __future__ import annotations

import pytest

from cutwater.connectors.contract import Delivery, Replay
from cutwater.errors import ConfigurationError, GuaranteeError
from cutwater.graph.guarantees import Guarantee, check_guarantees, guarantee_of, guarantees_of
from cutwater.protocol.modes import CheckpointMode

from .graphs import forward, graph, operator, sink, source, word_count

ONCE, REPEATED, LOSSY, NOTHING = (
    Guarantee.EXACTLY_ONCE,
    Guarantee.AT_LEAST_ONCE,
    Guarantee.AT_MOST_ONCE,
    Guarantee.NONE,
)
TABLE = {
    (CheckpointMode.EXACTLY_ONCE, Replay.REPLAYABLE): [ONCE, ONCE, ONCE, ONCE, REPEATED],
    (CheckpointMode.EXACTLY_ONCE, Replay.REDELIVERED): [REPEATED] * 5,
    (CheckpointMode.EXACTLY_ONCE, Replay.NOT_REPLAYABLE): [LOSSY, LOSSY, LOSSY, NOTHING, NOTHING],
    (CheckpointMode.AT_LEAST_ONCE, Replay.REPLAYABLE): [REPEATED] * 5,
    (CheckpointMode.AT_LEAST_ONCE, Replay.REDELIVERED): [REPEATED] * 5,
    (CheckpointMode.AT_LEAST_ONCE, Replay.NOT_REPLAYABLE): [NOTHING] * 5,
    (CheckpointMode.NONE, Replay.REPLAYABLE): [LOSSY] * 5,
    (CheckpointMode.NONE, Replay.REDELIVERED): [NOTHING] * 5,
    (CheckpointMode.NONE, Replay.NOT_REPLAYABLE): [LOSSY] * 5,
}
DELIVERIES = [Delivery.TRANSACTIONAL, Delivery.WRITE_AHEAD, Delivery.IDEMPOTENT, Delivery.FINGERPRINT, Delivery.PLAIN]


@pytest.mark.parametrize(("mode", "replay"), TABLE)
def test_the_table_of_guarantees(mode: CheckpointMode, replay: Replay) -> None:
    assert [guarantee_of(replay, mode, delivery)[0] for delivery in DELIVERIES] == TABLE[mode, replay]


def test_the_table_has_a_line_for_every_combination() -> None:
    assert set(TABLE) == {(mode, replay) for mode in CheckpointMode for replay in Replay}
    assert set(DELIVERIES) == set(Delivery)


def test_an_idempotent_sink_is_exactly_once_only_in_effect() -> None:
    _, reason = guarantee_of(Replay.REPLAYABLE, CheckpointMode.EXACTLY_ONCE, Delivery.IDEMPOTENT)
    assert reason.startswith("effectively")


def test_only_joined_sources_and_sinks_have_a_guarantee() -> None:
    written = graph(
        [
            source("a"),
            source("b", Replay.NOT_REPLAYABLE),
            operator("both"),
            sink("plain", Delivery.PLAIN),
            sink("of a"),
        ],
        [forward("a", "both"), forward("b", "both"), forward("both", "plain"), forward("a", "of a")],
    )
    found = [(one.source, one.sink, one.guarantee) for one in guarantees_of(written, CheckpointMode.EXACTLY_ONCE)]
    assert found == [("a", "plain", REPEATED), ("b", "plain", NOTHING), ("a", "of a", ONCE)]


def test_asking_for_more_is_refused_with_the_reason_and_the_remedy() -> None:
    written = graph([source("in"), sink("out", Delivery.PLAIN)], [forward("in", "out")])
    with pytest.raises(GuaranteeError) as caught:
        check_guarantees(guarantees_of(written, CheckpointMode.EXACTLY_ONCE), "exactly_once")
    assert str(caught.value).splitlines() == [
        'the job asks for exactly once, but "in" to "out" gives at least once',
        "  detail: a plain sink can't take back what it wrote after the last checkpoint",
        "  hint:   for exactly once use a transactional or idempotent sink",
    ]


@pytest.mark.parametrize("require", [None, "exactly_once", "at_least_once", "at_most_once", "none"])
def test_exactly_once_satisfies_every_wish(require: str | None) -> None:
    check_guarantees(guarantees_of(word_count(), CheckpointMode.EXACTLY_ONCE), require)


def test_at_least_once_does_not_satisfy_who_wants_at_most_once() -> None:
    with pytest.raises(GuaranteeError):
        check_guarantees(guarantees_of(word_count(), CheckpointMode.AT_LEAST_ONCE), Guarantee.AT_MOST_ONCE)


def test_a_guarantee_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="'twice' is not a guarantee"):
        check_guarantees([], "twice")

"""Is a card used too often? How often is too often, a second stream says, while the job runs.

The rules are broadcast: every task has them all. A rule is valid from a time on, and a payment is judged by the rule of
its own time, whichever of the two came first. For that it waits in the state of its card for a timer of event time. The
watermark is that of the slower stream: when it has come to the payment, all earlier payments and all rules for it are
there. So the result depends on the input alone, not on the speed of the streams.

[enrich_with_rules.py](enrich_with_rules.py) is the simpler way: it takes whatever rule it knows by then.

Run it: `cutwater run examples/card_fraud.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cutwater as cw

#: No rule looks back further than this.
REMEMBER_MS = 300_000


class TooOften:
    """Keeps the times at which a card was used, and forgets them when no rule can ask for them any more."""

    def open(self, context: Any) -> None:
        self._waiting = context.map_state("waiting")
        self._uses_ms = context.list_state("uses_ms", type=int)

    def process_broadcast(self, rule: dict[str, Any], context: Any) -> None:
        rules = context.broadcast_state
        rules[rule["kind"]] = [*rules.get(rule["kind"], []), rule]

    def process(self, payment: dict[str, Any], context: Any) -> None:
        time_ms = context.timestamp_ms
        self._waiting.put(time_ms, [*self._waiting.get(time_ms, []), payment])
        context.register_event_timer(time_ms)

    def on_timer(self, time_ms: int, context: Any) -> Iterator[dict[str, Any]]:
        uses_ms = [use_ms for use_ms in self._uses_ms.get() if use_ms > time_ms - REMEMBER_MS]
        for payment in sorted(self._waiting.get(time_ms, []), key=lambda payment: payment["payment"]):
            uses_ms.append(time_ms)
            context.register_event_timer(time_ms + REMEMBER_MS)  # to forget it, if the card isn't used any more
            yield from judge(payment, uses_ms, rule_at(time_ms, context.broadcast_state.get(payment["kind"], [])))
        self._waiting.remove(time_ms)
        self._uses_ms.update(uses_ms)


def rule_at(time_ms: int, rules: list[dict[str, Any]]) -> dict[str, Any] | None:
    return max((rule for rule in rules if rule["from_ms"] <= time_ms), key=lambda rule: rule["from_ms"], default=None)


def judge(payment: dict[str, Any], uses_ms: list[int], rule: dict[str, Any] | None) -> Iterator[dict[str, Any]]:
    if rule is None:
        return
    since_ms = payment["time_ms"] - 1_000 * rule["within_seconds"]
    uses = sum(use_ms > since_ms for use_ms in uses_ms)
    if uses > rule["uses_max"]:
        yield {**payment, "uses": uses, "uses_max": rule["uses_max"], "within_seconds": rule["within_seconds"]}


def build(env: cw.Environment, input_folder: Path, output_folder: Path) -> None:
    payments = env.from_source(cw.sources.files(input_folder / "payments", format="json"), uid="payments")
    rules = env.from_source(cw.sources.files(input_folder / "rules", format="json"), uid="rules", parallelism=1)
    (
        payments.assign_timestamps("time_ms", cw.watermarks.bounded("5s"))
        .key_by("card")
        .connect(rules.assign_timestamps("from_ms", cw.watermarks.monotonous()).broadcast())
        .process(TooOften(), uid="too-often")
        .sink_to(cw.sinks.json_lines(output_folder), uid="out")
    )


if __name__ == "__main__":
    from data import workspace, write_card_payments

    folders = workspace("card-fraud", write_card_payments)
    env = cw.Environment(parallelism=2, checkpoints=cw.Checkpoints(every="500ms", storage=folders.checkpoints))
    build(env, folders.input, folders.output)
    env.execute("card fraud", require="exactly_once")
    print(f"the suspicious payments are in {folders.output}")

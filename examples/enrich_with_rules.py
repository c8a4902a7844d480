"""Judges payments by rules that change while the job runs.

The rules are a stream too: broadcast, so that every task keeps all of them in its broadcast state. A payment is judged
by the newest rule that its task knows; which one that was is part of the result, since nothing orders the two streams.

Run it: `cutwater run examples/enrich_with_rules.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cutwater as cw

NO_RULE: dict[str, Any] = {"version": 0, "limit_cents": None}


class Judge:
    """Numbers the payments of each account, and marks those above the limit of their country."""

    def open(self, context: Any) -> None:
        self._number = context.value_state("number", default=0)

    def process(self, payment: dict[str, Any], context: Any) -> Iterator[dict[str, Any]]:
        number = self._number.value() + 1
        self._number.update(number)
        rule = context.broadcast_state.get(payment["country"], NO_RULE)
        limit_cents = rule["limit_cents"]
        yield {
            **payment,
            "number": number,
            "version": rule["version"],
            "suspicious": limit_cents is not None and payment["cents"] > limit_cents,
        }

    def process_broadcast(self, rule: dict[str, Any], context: Any) -> None:
        known = context.broadcast_state.get(rule["country"], NO_RULE)
        if rule["version"] > known["version"]:
            context.broadcast_state[rule["country"]] = rule


def build(env: cw.Environment, input_folder: Path, output_folder: Path) -> None:
    payments = env.from_source(cw.sources.files(input_folder / "payments", format="json"), uid="payments")
    rules = env.from_source(cw.sources.files(input_folder / "rules", format="json"), uid="rules", parallelism=1)
    (
        payments.key_by("account")
        .connect(rules.broadcast())
        .process(Judge(), uid="judge")
        .sink_to(cw.sinks.json_lines(output_folder), uid="out")
    )


if __name__ == "__main__":
    from data import workspace, write_payments_and_rules

    folders = workspace("enrich-with-rules", write_payments_and_rules)
    env = cw.Environment(parallelism=2, checkpoints=cw.Checkpoints(every="500ms", storage=folders.checkpoints))
    build(env, folders.input, folders.output)
    env.execute("enrich with rules", require="exactly_once")
    print(f"the judged payments are in {folders.output}")

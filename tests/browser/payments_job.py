"""The job that browsers look at: `payments_job.py STORAGE [PARALLELISM]`. Runs until it is stopped.

Card payments are judged by rules that change, and added up by country and minute.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator
from typing import Any

import cutwater as cw
from cutwater.deploy.session import embedded_session

COUNTRIES = ("CH", "DE", "FR", "IT", "AT", "PL")


def payment(index: int) -> dict[str, Any]:
    draw = random.Random(index)
    # Most payments are from few countries: state and load are skewed as in real life.
    country = COUNTRIES[min(int(draw.expovariate(0.8)), len(COUNTRIES) - 1)]
    return {
        "card": draw.randrange(20_000),
        "country": country,
        "cents": draw.randrange(100, 90_000),
        "at": time.time_ns() // 1_000_000,
    }


def rule(index: int) -> dict[str, Any]:
    return {"country": COUNTRIES[index % len(COUNTRIES)], "limit_cents": 60_000 + index % 7 * 4_000}


def in_euro(one: dict[str, Any]) -> dict[str, Any]:
    return {**one, "cents": round(one["cents"] * 1.04)}


class TooOften:
    """Counts the payments of each card, and asks about those above the limit of their country."""

    def open(self, context: Any) -> None:
        self._number = context.value_state("number", default=0, type=int)

    def process(self, one: dict[str, Any], context: Any) -> Iterator[dict[str, Any]]:
        number = self._number.value() + 1
        self._number.update(number)
        time.sleep(0.0004)  # a model is asked
        if one["cents"] > context.broadcast_state.get(one["country"], 95_000) or number % 50 == 0:
            yield {"card": one["card"], "number": number}

    def process_broadcast(self, changed: dict[str, Any], context: Any) -> None:
        context.broadcast_state[changed["country"]] = changed["limit_cents"]


def build(env: cw.Environment, per_second: float) -> None:
    payments = env.from_source(cw.sources.generator(payment, per_second=per_second), uid="payments")
    rules = env.from_source(cw.sources.generator(rule, per_second=2, splits=1), uid="rules", parallelism=1)
    known = payments.map(in_euro, uid="in-euro").assign_timestamps("at", cw.watermarks.bounded("2s"), uid="event-time")
    (
        known.key_by("card")
        .connect(rules.broadcast())
        .process(TooOften(), uid="too-often")
        .sink_to(cw.sinks.discard(), uid="alarms")
    )
    (
        known.key_by("country")
        .window(cw.tumbling("10s"))
        .aggregate(payments=cw.agg.count(), cents=cw.agg.sum("cents"), uid="by-country")
        .rebalance()
        .sink_to(cw.sinks.discard(), uid="totals")
    )


if __name__ == "__main__":
    storage, parallelism = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 2
    every, per_second = sys.argv[3] if len(sys.argv) > 3 else "1s", float(sys.argv[4]) if len(sys.argv) > 4 else 2_000
    environment = cw.Environment(
        parallelism=parallelism,
        spark=embedded_session(parallelism + 2),
        checkpoints=cw.Checkpoints(every=every, storage=storage),
        restart=cw.restart.fixed_delay(attempts=5, delay="100ms"),
    )
    build(environment, per_second)
    environment.submit("card payments").wait()

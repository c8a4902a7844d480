"""What does each example have to put out, by the slowest and most obvious way to know?

A golden function reads the input with the standard library or DuckDB and never calls Cutwater or the example. `found`
reads what the job has committed. Both give values that are equal exactly when the output is right: nothing lost,
nothing repeated, no state that has seen a record twice.
"""

from __future__ import annotations

import importlib
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import duckdb

from . import event_time_goldens as timed
from .output_files import json_rows, parquet_rows

BACKENDS = ("memory", "filesystem", "rocksdb")


@dataclass(frozen=True)
class Pipeline:
    """An example, its input, and what is right."""

    name: str
    example: str
    write: Callable[[Path], None]
    golden: Callable[[Path], Any]
    found: Callable[[Path], Any]
    #: Records a second and split, by the source's uid, that make the stream last about two seconds; others don't wait.
    paces: dict[str, float]
    options: dict[str, Any] = field(default_factory=dict)
    #: Where its state lives when it is rescaled.
    backends: tuple[str, ...] = BACKENDS

    def build(self, env: Any, input_folder: Path, output_folder: Path) -> None:
        module = importlib.import_module(self.example)
        module.build(env, input_folder, output_folder, **self.options)


def _data(writer: str) -> Callable[[Path], None]:
    return lambda folder: getattr(importlib.import_module("data"), writer)(folder)


# Word count: a word that occurs n times has the rows 1 to n.


def count_words(folder: Path) -> Counter[tuple[str, int]]:
    totals = Counter(word for path in folder.glob("*.txt") for word in path.read_text().split())
    return Counter((word, count) for word, total in totals.items() for count in range(1, total + 1))


def counted_words(folder: Path) -> Counter[tuple[str, int]]:
    return Counter((row["word"], row["count"]) for row in json_rows(folder))


# Running totals: the orders of a customer lie in one file, so that even each step on the way is known.


def add_up_orders(folder: Path, *, extension: str) -> Counter[tuple[str, int]]:
    # One order number per region: together with the customer it names the order.
    steps = duckdb.sql(f"""
        select customer, sum(cents) over (partition by customer order by "order") as total
        from '{folder}/orders/*.{extension}'
    """).fetchall()
    return Counter((customer, int(total)) for customer, total in steps)


def totals(folder: Path) -> Counter[tuple[str, int]]:
    return Counter(parquet_rows(folder, "customer, total_cents"))


# Rules: the two streams have no order, so the judgement is right when it fits the version that it names.


def payments_by_number(folder: Path) -> Any:
    numbers: Counter[str] = Counter()
    rows = []
    for payment in json_rows(folder / "payments"):
        numbers[payment["account"]] += 1
        rows.append((payment["account"], numbers[payment["account"]], payment["payment"], payment["cents"]))
    return sorted(rows), [], True


def judged_payments(folder: Path) -> Any:
    """The payments, numbered per account; the judgements that are wrong; and whether the last rules were in use."""
    rules = importlib.import_module("data").RULES
    limits = {(rule["country"], rule["version"]): rule["limit_cents"] for rule in rules}
    newest = {rule["country"]: rule["version"] for rule in rules}
    rows = sorted(json_rows(folder), key=lambda row: (row["account"], row["number"]))
    version_seen: Counter[tuple[str, str]] = Counter()
    wrong = []
    for row in rows:
        limit = limits.get((row["country"], row["version"]))
        place = row["account"], row["country"]
        # A rule that was known once is never forgotten: not by a restart either.
        if row["suspicious"] != (limit is not None and row["cents"] > limit) or row["version"] < version_seen[place]:
            wrong.append(row)
        version_seen[place] = row["version"]
    in_use = all(version == newest[country] for (_, country), version in version_seen.items())
    return [(row["account"], row["number"], row["payment"], row["cents"]) for row in rows], wrong, in_use


# Enrichment: payments come out in any order, each once, with the tax of its country.


def taxed_payments(folder: Path) -> list[tuple[Any, ...]]:
    vat_percent = importlib.import_module("data").VAT_PERCENT
    payments = [(row["payment"], row["cents"], vat_percent[row["country"]]) for row in json_rows(folder / "payments")]
    return sorted((number, percent, cents * percent // 100) for number, cents, percent in payments)


def taxed_payments_found(folder: Path) -> list[tuple[Any, ...]]:
    return sorted((row["payment"], row["vat_percent"], row["vat_cents"]) for row in json_rows(folder))


# Duplicates: the copies of a click are equal, so it doesn't matter which of them came first.


def separate_clicks(folder: Path) -> Any:
    copies = Counter(row["click"] for row in json_rows(folder))
    return Counter(copies.keys()), Counter({click: count - 1 for click, count in copies.items() if count > 1})


def separated_clicks(folder: Path) -> Any:
    return tuple(Counter(row["click"] for row in json_rows(folder / part)) for part in ("unique", "duplicates"))


# A Spark query.


def discount_orders(folder: Path) -> list[tuple[Any, ...]]:
    return duckdb.sql(f"""
        select "order", customer, cents, split_part(customer, '-', 1) as region,
               case when cents >= 20000 then cents // 10 else 0 end
        from '{folder}/orders/*.parquet' where region <> 'west' order by all
    """).fetchall()


def discounted_orders(folder: Path) -> list[tuple[Any, ...]]:
    return sorted(parquet_rows(folder, '"order", customer, cents, region, discount_cents'))


# A table that Spark writes.


def larger_orders(folder: Path) -> list[tuple[Any, ...]]:
    return duckdb.sql(f"""
        select "order", customer, cents, split_part(customer, '-', 1) as region
        from '{folder}/orders/*.parquet' where cents >= 1000 order by all
    """).fetchall()


def orders_in_table(folder: Path) -> list[tuple[Any, ...]]:
    columns = '"order", customer, cents, region'
    epochs = [epoch for epoch in folder.glob("epoch=*") if (epoch / "_SUCCESS").exists()]
    return sorted(row for epoch in epochs for row in parquet_rows(epoch, columns))


# Logs: requests arrive in any order, so only the sums at the end are known; on the way every number occurs once.


def load_of_services(folder: Path) -> Any:
    requests = [(line.split()[0], int(line.split()[1])) for line in (folder / "access/access.log").open()]
    requests += [(row["service"], row["ms"]) for row in json_rows(folder / "services")]
    times: dict[str, list[int]] = defaultdict(list)
    for service, ms in requests:
        if ms >= 10:
            times[service].append(ms)
    return {service: (list(range(1, len(ms) + 1)), sum(ms), len(ms), max(ms)) for service, ms in times.items()}


def loads_found(folder: Path) -> Any:
    loads, slowest = defaultdict(list), defaultdict(list)
    for row in json_rows(folder / "load"):
        loads[row["service"]].append((row["requests"], row["ms"]))
    for row in json_rows(folder / "slowest"):
        slowest[row["service"]].append(row["ms"])
    return {
        service: (sorted(number for number, _ in steps), max(steps)[1], len(slowest[service]), max(slowest[service]))
        for service, steps in loads.items()
    }


PIPELINES = [
    Pipeline("word_count", "word_count", _data("write_books"), count_words, counted_words, {"books": 150}),
    Pipeline(
        "running_totals_csv",
        "running_totals",
        _data("write_orders_as_csv"),
        partial(add_up_orders, extension="csv"),
        totals,
        {"orders": 150},
    ),
    Pipeline(
        "running_totals_parquet",
        "running_totals",
        _data("write_orders_as_parquet"),
        partial(add_up_orders, extension="parquet"),
        totals,
        {"orders": 150},
        {"format": "parquet"},
    ),
    Pipeline(
        "enrich_with_rules",
        "enrich_with_rules",
        _data("write_payments_and_rules"),
        payments_by_number,
        judged_payments,
        {"payments": 300},
    ),
    Pipeline(
        "enrich_over_http",
        "enrich_over_http",
        _data("write_payments_and_rules"),
        taxed_payments,
        taxed_payments_found,
        {"payments": 300},
    ),
    Pipeline("deduplicate", "deduplicate", _data("write_clicks"), separate_clicks, separated_clicks, {"clicks": 300}),
    Pipeline(
        "from_spark",
        "from_spark",
        _data("write_orders_as_parquet"),
        discount_orders,
        discounted_orders,
        {"orders": 300},
    ),
    Pipeline(
        "into_spark_tables",
        "into_spark_tables",
        _data("write_orders_as_parquet"),
        larger_orders,
        orders_in_table,
        {"orders": 150},
    ),
    Pipeline(
        "union_of_logs",
        "union_of_logs",
        _data("write_logs"),
        load_of_services,
        loads_found,
        {"access": 250, "services": 100},
    ),
    Pipeline(
        "late_measurements",
        "late_measurements",
        _data("write_measurements"),
        timed.minutes_of_sensors,
        timed.minutes_found,
        {"measurements": 250},
    ),
    Pipeline(
        "clicks_after_views",
        "clicks_after_views",
        _data("write_views_and_clicks"),
        timed.join_views_and_clicks,
        timed.views_and_clicks_found,
        {"views": 250, "clicks": 80},
    ),
    Pipeline(
        "top_items",
        "top_items",
        _data("write_purchases"),
        timed.rank_items,
        timed.ranked_items,
        {"purchases": 250},
        backends=("memory",),
    ),
    Pipeline(
        "click_sessions",
        "click_sessions",
        _data("write_visits"),
        timed.split_into_sessions,
        timed.sessions_found,
        {"clicks": 90},
        backends=("rocksdb",),
    ),
    Pipeline(
        "sensor_alarms",
        "sensor_alarms",
        _data("write_readings"),
        timed.alarms_of_sensors,
        timed.alarms_found,
        {"measurements": 180},
        backends=("rocksdb",),
    ),
    Pipeline(
        "card_fraud",
        "card_fraud",
        _data("write_card_payments"),
        timed.cards_used_too_often,
        timed.suspicious_payments,
        {"payments": 120, "rules": 20},
        backends=("memory",),
    ),
]

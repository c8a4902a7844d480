"""What do the examples that go by event time have to put out?

As in pipelines.py: by the slowest and most obvious way to know, without Cutwater and without the example.
"""

from __future__ import annotations

import importlib
from collections import Counter, defaultdict
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb

from .output_files import Rows, json_rows, parquet_rows

END_MS = 10**15

# Measurements: those that were lost for hours are late, unless they came before event time had got anywhere.


def minutes_of_sensors(folder: Path) -> Any:
    rows = duckdb.sql(f"""
        SELECT sensor, epoch_ms(measured_at) // 60000 * 60000 AS minute, count(*), min(celsius), max(celsius),
               round(avg(celsius), 9)
        FROM '{folder}/*.parquet' GROUP BY ALL ORDER BY ALL
    """).fetchall()
    noon_ms = _noon_ms()
    lost = Counter({(sensor, minute): count for sensor, minute, count, *_ in rows if minute < noon_ms})
    return [row for row in rows if row[1] >= noon_ms], lost, True


def minutes_found(folder: Path) -> Any:
    """The minutes that are complete; the lost measurements, wherever they are; whether any of them was late."""
    noon_ms = _noon_ms()
    columns = "sensor, epoch_ms(window_start), measurements, coldest, warmest, round(mean, 9)"
    rows = sorted(parquet_rows(folder / "minutes", columns))
    late = Counter(parquet_rows(folder / "late", "sensor, epoch_ms(measured_at) // 60000 * 60000"))
    lost = late + Counter({(sensor, minute): count for sensor, minute, count, *_ in rows if minute < noon_ms})
    return [row for row in rows if row[1] >= noon_ms], lost, bool(late)


# Views: one with n clicks has n rows, one with none has one.


def join_views_and_clicks(folder: Path) -> list[tuple[Any, ...]]:
    return duckdb.sql(f"""
        SELECT v.view, v.user, v.advertisement, c.click, c.click IS NOT NULL
        FROM '{folder}/views/*.parquet' v LEFT JOIN '{folder}/clicks/*.parquet' c
        ON v.user = c.user AND v.advertisement = c.advertisement
        AND c.time BETWEEN v.time AND v.time + INTERVAL 10 SECOND
        ORDER BY ALL
    """).fetchall()


def views_and_clicks_found(folder: Path) -> list[tuple[Any, ...]]:
    rows = parquet_rows(folder, '"view", "user", advertisement, click, clicked')
    return sorted(rows, key=lambda row: (row[0], row[3] or 0))


# Top items: for each minute, the three that sold best in the five minutes before.


def rank_items(folder: Path) -> list[tuple[Any, ...]]:
    duckdb.sql("SET TimeZone = 'UTC'")
    return duckdb.sql(f"""
        WITH purchases AS (SELECT item, epoch_ms(time) // 60000 AS minute FROM '{folder}/*.parquet'),
        counts AS (
            SELECT minute + later AS until, item, count(*) AS purchases
            FROM purchases, unnest(range(1, 6)) AS each(later) GROUP BY ALL
        )
        SELECT strftime(make_timestamp(until * 60000000), '%H:%M'),
               row_number() OVER (PARTITION BY until ORDER BY purchases DESC, item) AS rank, item, purchases
        FROM counts QUALIFY rank <= 3 ORDER BY ALL
    """).fetchall()


def ranked_items(folder: Path) -> list[tuple[Any, ...]]:
    return sorted((row["until"], row["rank"], row["item"], row["purchases"]) for row in json_rows(folder))


# Sessions: yesterday's clicks are late, unless they came before event time had got anywhere.


def split_into_sessions(folder: Path) -> Any:
    clicks = sorted(parquet_rows(folder, "user, epoch_ms(time), page"))
    today = [click for click in clicks if click[1] >= _noon_ms()]
    sessions: list[list[Any]] = []
    for before, click in pairwise([None, *today]):
        assert click is not None
        if before is None or click[0] != before[0] or click[1] - before[1] > 30 * 60_000:
            sessions.append([])
        sessions[-1].append(click)
    told = [(session[0][0], session[0][1], session[-1][1], [page for _, _, page in session]) for session in sessions]
    return told, [click for click in clicks if click[1] < _noon_ms()], True


def sessions_found(folder: Path) -> Any:
    """Today's sessions; yesterday's clicks, wherever they are; whether any of them was late."""
    sessions = sorted(
        (row["user"], _ms_of(row["from"]), _ms_of(row["to"]), row["pages"]) for row in json_rows(folder / "sessions")
    )
    late = list(parquet_rows(folder / "late", '"user", epoch_ms(time), page'))
    # No one had two clicks of yesterday close to each other that were in time.
    early = [(user, since, pages[0]) for user, since, _, pages in sessions if since < _noon_ms()]
    return [session for session in sessions if session[1] >= _noon_ms()], sorted(late + early), bool(late)


# Alarms: one measurement after the other, as if they had come in order.


def alarms_of_sensors(folder: Path) -> list[tuple[str, int, str]]:
    measurements = defaultdict(list)
    for sensor, at_ms, celsius in sorted(parquet_rows(folder, "sensor, epoch_ms(measured_at), celsius")):
        measurements[sensor].append((at_ms, celsius > 70))
    alarms = []
    for sensor, made in measurements.items():
        hot_since_ms = None
        for (at_ms, hot), (next_ms, _) in pairwise([*made, (END_MS, False)]):
            hot_since_ms = (hot_since_ms or at_ms) if hot else None
            silent = next_ms - at_ms > 10_000
            known_until_ms = at_ms + 10_000 if silent else next_ms
            if hot_since_ms is not None and at_ms <= hot_since_ms + 60_000 < known_until_ms:
                alarms.append((sensor, hot_since_ms + 60_000, "hot"))
            if silent:
                alarms.append((sensor, at_ms + 10_000, "silent"))
                hot_since_ms = None
    return sorted(alarms)


def alarms_found(folder: Path) -> list[tuple[str, int, str]]:
    return sorted((row["sensor"], _ms_of(row["at"]), row["alarm"]) for row in json_rows(folder))


# Cards: every payment is compared with all others of its card, by the rule that was the newest at its time.


def cards_used_too_often(folder: Path) -> Rows:
    payments = json_rows(folder / "payments")
    rules = json_rows(folder / "rules")
    suspicious = []
    for payment in payments:
        valid = [rule for rule in rules if rule["kind"] == payment["kind"] and rule["from_ms"] <= payment["time_ms"]]
        rule = max(valid, key=lambda rule: rule["from_ms"])
        since_ms = payment["time_ms"] - 1_000 * rule["within_seconds"]
        uses = sum(
            other["card"] == payment["card"]
            and since_ms < other["time_ms"]
            and (other["time_ms"], other["payment"]) <= (payment["time_ms"], payment["payment"])
            for other in payments
        )
        if uses > rule["uses_max"]:
            limits = {"uses_max": rule["uses_max"], "within_seconds": rule["within_seconds"]}
            suspicious.append({**payment, "uses": uses, **limits})
    return sorted(suspicious, key=lambda row: row["payment"])


def suspicious_payments(folder: Path) -> Rows:
    return sorted(json_rows(folder), key=lambda row: row["payment"])


def _noon_ms() -> int:
    return _ms_of(importlib.import_module("data").NOON.isoformat())


def _ms_of(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1_000)

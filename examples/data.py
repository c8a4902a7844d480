"""Where does the input of the examples come from?

Every file is the same on every run. Whatever order matters for (the orders of one customer) lies in one file.
"""

from __future__ import annotations

import csv
import json
import random
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

WORDS = ("river", "bridge", "pier", "water", "stone", "arch", "current", "barrier", "stream", "record", "state", "slot")
REGIONS = ("north", "south", "east", "west")
COUNTRIES = ("AT", "CH", "DE", "FR", "IT")
VAT_PERCENT = {"AT": 20, "CH": 8, "DE": 19, "FR": 20, "IT": 22}
SERVICES = ("basket", "login", "search")
PAGES = ("/", "/search", "/item", "/basket", "/pay")
ITEMS = ("anchor", "boat", "cable", "deck", "engine", "flag", "gauge", "hatch")
SHOPS = ("Basel", "Bern", "Chur", "Zug")

ORDERS = pa.schema([("order", pa.int64()), ("customer", pa.string()), ("cents", pa.int64())])
TIME = pa.timestamp("ms", "UTC")
MEASUREMENTS = pa.schema([("sensor", pa.string()), ("measured_at", TIME), ("celsius", pa.float64())])
VIEWS = pa.schema([("view", pa.int64()), ("user", pa.string()), ("advertisement", pa.int64()), ("time", TIME)])
CLICKS = pa.schema([("click", pa.int64()), ("user", pa.string()), ("advertisement", pa.int64()), ("time", TIME)])
VISITS = pa.schema([("user", pa.string()), ("page", pa.string()), ("time", TIME)])
PURCHASES = pa.schema([("item", pa.string()), ("time", TIME)])
NOON = datetime(2025, 6, 1, 12, tzinfo=UTC)


@dataclass(frozen=True)
class Workspace:
    """The folders of one run."""

    root: Path

    @property
    def input(self) -> Path:
        return self.root / "input"

    @property
    def output(self) -> Path:
        return self.root / "output"

    @property
    def checkpoints(self) -> str:
        return f"file://{self.root}/checkpoints"


def workspace(name: str, write: Callable[[Path], None] | None = None) -> Workspace:
    """A fresh temporary folder with this input; it is kept, so that the output can be looked at."""
    made = Workspace(Path(tempfile.mkdtemp(prefix=f"cutwater-{name}-")))
    if write is not None:
        write(made.input)
    return made


def write_books(folder: Path, *, books: int = 4, lines: int = 300) -> None:
    """Text, eight words a line."""
    for book in range(books):
        generator = random.Random(book)
        text = [" ".join(generator.choices(WORDS, k=8)) for _ in range(lines)]
        _write_text(folder / f"book-{book}.txt", "\n".join(text) + "\n")


def write_orders_as_csv(folder: Path, *, orders: int = 300) -> None:
    """One CSV file per region."""
    for region in REGIONS:
        rows = list(_orders(region, orders))
        (folder / "orders").mkdir(parents=True, exist_ok=True)
        with open(folder / "orders" / f"{region}.csv", "w", newline="") as file:
            writer = csv.DictWriter(file, ORDERS.names)
            writer.writeheader()
            writer.writerows(rows)


def write_orders_as_parquet(folder: Path, *, orders: int = 300) -> None:
    """The same orders, one Parquet file per region, in row groups of 100."""
    (folder / "orders").mkdir(parents=True, exist_ok=True)
    for region in REGIONS:
        table = pa.Table.from_pylist(list(_orders(region, orders)), schema=ORDERS)
        pq.write_table(table, folder / "orders" / f"{region}.parquet", row_group_size=100)


def write_payments_and_rules(folder: Path, *, payments: int = 600) -> None:
    """Payments by account, and versions of a rule that says from which amount on a payment is looked at."""
    generator = random.Random(11)
    for half in range(2):
        rows = [
            {
                "payment": half * payments + number,
                "account": f"account-{half}-{number % 10}",
                "country": generator.choice(COUNTRIES),
                "cents": generator.randrange(100, 100_000),
            }
            for number in range(payments)
        ]
        _write_json(folder / "payments" / f"payments-{half}.jsonl", rows)
    _write_json(folder / "rules" / "rules.jsonl", RULES)


#: The newest version of a country's rule counts.
RULES: list[dict[str, Any]] = [
    *({"country": country, "version": 1, "limit_cents": 80_000} for country in COUNTRIES),
    {"country": "CH", "version": 2, "limit_cents": 95_000},
    {"country": "IT", "version": 2, "limit_cents": 60_000},
]


def write_clicks(folder: Path, *, clicks: int = 500) -> None:
    """Two collectors; the second one has a third of the first one's clicks as well, and some of its own twice."""
    generator = random.Random(23)
    first = [_click(number) for number in range(clicks)]
    second = [_click(number) for number in range(clicks, 2 * clicks)]
    second += generator.sample(first, clicks // 3) + generator.sample(second, clicks // 10)
    generator.shuffle(second)
    _write_json(folder / "collector-0.jsonl", first)
    _write_json(folder / "collector-1.jsonl", second)


def write_logs(folder: Path, *, requests: int = 500) -> None:
    """A long access log as text, and short service logs as JSON: the same facts in two shapes."""
    generator = random.Random(31)
    lines = [f"{service} {milliseconds}" for service, milliseconds in _requests(generator, requests)]
    _write_text(folder / "access" / "access.log", "\n".join(lines) + "\n")
    for number in range(3):
        rows = [{"service": service, "ms": ms} for service, ms in _requests(generator, requests // 4)]
        _write_json(folder / "services" / f"service-{number}.jsonl", rows)


def write_measurements(folder: Path, *, seconds: int = 500) -> None:
    """Four sensors, a measurement a second each, told up to 20 s late; now and then one was lost for hours."""
    generator = random.Random(41)
    rows: list[dict[str, Any]] = [
        {"sensor": f"sensor-{sensor}", "measured_at": NOON + timedelta(seconds=second), "celsius": celsius / 10}
        for second in range(seconds)
        for sensor in range(4)
        for celsius in [generator.randrange(100, 260)]
    ]
    rows.sort(key=lambda row: row["measured_at"] + timedelta(seconds=generator.uniform(0, 20)))
    for row in rows[49::50]:
        row["measured_at"] -= timedelta(hours=3)
    _write_parts(folder, rows, MEASUREMENTS, parts=4)


def write_views_and_clicks(folder: Path, *, views: int = 1_000) -> None:
    """A third of the views is clicked, some of these too late to count; all told up to 4 s out of order."""
    generator = random.Random(53)
    seen: list[dict[str, Any]] = []
    clicked: list[dict[str, Any]] = []
    for number in range(views):
        at = NOON + timedelta(milliseconds=100 * number)
        who = {"user": f"user-{generator.randrange(50)}", "advertisement": generator.randrange(5)}
        seen.append({"view": number, **who, "time": at})
        if generator.random() < 1 / 3:
            later = timedelta(milliseconds=generator.randrange(15_000))
            clicked.append({"click": 10_000 + number, **who, "time": at + later})
    for name, rows, schema in (("views", seen, VIEWS), ("clicks", clicked, CLICKS)):
        rows.sort(key=lambda row: row["time"] + timedelta(seconds=generator.uniform(0, 4)))
        _write_parts(folder / name, rows, schema, parts=2)


def write_visits(folder: Path, *, visits: int = 120) -> None:
    """Clicks of visits an hour apart, told up to 20 s out of order; a few phones tell yesterday's clicks today."""
    generator = random.Random(61)
    rows: list[dict[str, Any]] = []
    for number in range(visits):
        user, at = f"user-{number % 12}", NOON + timedelta(hours=number // 12, seconds=generator.randrange(600))
        for _ in range(generator.randrange(1, 12)):
            rows.append({"user": user, "page": generator.choice(PAGES), "time": at})
            at += timedelta(milliseconds=generator.randrange(1, 120_000))
    rows.sort(key=lambda row: row["time"] + timedelta(seconds=generator.uniform(0, 20)))
    for row in rows[39::40]:
        row["time"] -= timedelta(days=1)
    _write_parts(folder, rows, VISITS, parts=4)


def write_readings(folder: Path, *, seconds: int = 900) -> None:
    """Four sensors, a measurement every two seconds each, told up to 5 s late; they are hot and silent for a while."""
    generator = random.Random(67)
    rows: list[dict[str, Any]] = []
    for sensor in range(4):
        second = 0
        while second < seconds:
            mood = generator.choice(("normal", "hot", "silent"))
            ends = second + generator.randrange(6, 20) if mood == "silent" else second + generator.randrange(20, 80)
            for at in range(second, ends, 2) if mood != "silent" else ():
                celsius = generator.randrange(200, 700) / 10 + (50 if mood == "hot" else 0)
                measured_at = NOON + timedelta(seconds=at, milliseconds=sensor)
                rows.append({"sensor": f"sensor-{sensor}", "measured_at": measured_at, "celsius": celsius})
            second = ends
    rows.sort(key=lambda row: row["measured_at"] + timedelta(seconds=generator.uniform(0, 5)))
    _write_parts(folder, rows, MEASUREMENTS, parts=4)


def write_purchases(folder: Path, *, purchases: int = 2_000) -> None:
    """Twenty minutes of purchases, told up to 20 s late; what is wanted most changes on the way."""
    generator = random.Random(71)
    rows: list[dict[str, Any]] = []
    for number in range(purchases):
        share = number / purchases
        weights = [1 + 6 * max(0.0, 1 - abs(share * len(ITEMS) - place)) for place in range(len(ITEMS))]
        at = NOON + timedelta(milliseconds=number * 1_200_000 // purchases)
        rows.append({"item": generator.choices(ITEMS, weights)[0], "time": at})
    rows.sort(key=lambda row: row["time"] + timedelta(seconds=generator.uniform(0, 20)))
    _write_parts(folder, rows, PURCHASES, parts=4)


def write_card_payments(folder: Path, *, payments: int = 1_000) -> None:
    """Payments by card, told up to 4 s late, and the rules for each kind of card, each valid from a time on."""
    generator = random.Random(73)
    noon_ms = round(NOON.timestamp() * 1_000)
    rows: list[dict[str, Any]] = []
    for number in range(payments):
        card = generator.randrange(45)
        kind = ("credit", "debit", "prepaid")[card % 3]
        rows.append({"payment": number, "card": f"card-{card}", "kind": kind, "time_ms": noon_ms + 500 * number})
    rows.sort(key=lambda row: row["time_ms"] + generator.randrange(4_000))
    for part in range(4):
        _write_json(folder / "payments" / f"payments-{part}.jsonl", rows[part * payments // 4 :][: payments // 4])
    rules = [{**rule, "from_ms": noon_ms + 1_000 * rule["from_second"]} for rule in CARD_RULES]
    _write_json(folder / "rules" / "rules.jsonl", rules)


#: How often a card may be used: the newest rule for its kind counts.
CARD_RULES: list[dict[str, Any]] = [
    {"kind": "credit", "from_second": 0, "uses_max": 4, "within_seconds": 30},
    {"kind": "debit", "from_second": 0, "uses_max": 6, "within_seconds": 60},
    {"kind": "prepaid", "from_second": 0, "uses_max": 3, "within_seconds": 20},
    {"kind": "credit", "from_second": 100, "uses_max": 3, "within_seconds": 30},
    {"kind": "prepaid", "from_second": 250, "uses_max": 8, "within_seconds": 120},
    {"kind": "debit", "from_second": 300, "uses_max": 1, "within_seconds": 5},
]


def shop_orders(*, orders: int = 2_000) -> list[dict[str, Any]]:
    """Ten minutes of orders, in the order of their times."""
    generator = random.Random(79)
    noon_ms = round(NOON.timestamp() * 1_000)
    times_ms = [noon_ms + number * 600_000 // orders for number in range(orders)]
    return [
        {"shop": generator.choice(SHOPS), "cents": generator.randrange(500, 50_000), "time_ms": time_ms}
        for time_ms in times_ms
    ]


def stock_changes(*, changes: int = 500) -> Iterator[tuple[str, str, int]]:
    """What happens in a warehouse: "insert" or "update" with the pieces that there are now of an item, or "delete"."""
    generator = random.Random(83)
    there: set[str] = set()
    for _ in range(changes):
        item = generator.choice(ITEMS)
        if item not in there:
            there.add(item)
            yield "insert", item, generator.randrange(100)
        elif generator.random() < 0.1:
            there.discard(item)
            yield "delete", item, 0
        else:
            yield "update", item, generator.randrange(100)


def _write_parts(folder: Path, rows: list[dict[str, Any]], schema: pa.Schema, *, parts: int) -> None:
    """Parquet files that follow each other in time, as a log that is rotated: a later one holds nothing old."""
    folder.mkdir(parents=True, exist_ok=True)
    size = -(-len(rows) // parts)
    for part in range(parts):
        table = pa.Table.from_pylist(rows[part * size : (part + 1) * size], schema=schema)
        pq.write_table(table, folder / f"part-{part}.parquet", row_group_size=100)


def _orders(region: str, orders: int) -> Iterator[dict[str, Any]]:
    generator = random.Random(region)
    for number in range(orders):
        customer = f"{region}-{generator.randrange(12):02d}"
        yield {"order": number, "customer": customer, "cents": generator.randrange(500, 50_000)}


def _click(number: int) -> dict[str, Any]:
    return {"click": f"c{number:06d}", "page": f"/page/{number * 7 % 40}"}


def _requests(generator: random.Random, requests: int) -> Iterator[tuple[str, int]]:
    for _ in range(requests):
        yield generator.choice(SERVICES), generator.randrange(1, 2_000)


def _write_json(path: Path, rows: list[dict[str, Any]]) -> None:
    _write_text(path, "".join(json.dumps(row) + "\n" for row in rows))


def _write_text(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)

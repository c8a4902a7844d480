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
SERVICES = ("basket", "login", "search")

ORDERS = pa.schema([("order", pa.int64()), ("customer", pa.string()), ("cents", pa.int64())])
TIME = pa.timestamp("ms", "UTC")
MEASUREMENTS = pa.schema([("sensor", pa.string()), ("measured_at", TIME), ("celsius", pa.float64())])
VIEWS = pa.schema([("view", pa.int64()), ("user", pa.string()), ("advertisement", pa.int64()), ("time", TIME)])
CLICKS = pa.schema([("click", pa.int64()), ("user", pa.string()), ("advertisement", pa.int64()), ("time", TIME)])
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


def workspace(name: str, write: Callable[[Path], None]) -> Workspace:
    """A fresh temporary folder with this input; it is kept, so that the output can be looked at."""
    made = Workspace(Path(tempfile.mkdtemp(prefix=f"cutwater-{name}-")))
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
    rows = [
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

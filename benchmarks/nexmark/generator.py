"""What happens at the auction house, and in which order is it told?

Of fifty events one is a person who registers, three are auctions that open, and 46 are bids, as Nexmark has it. Ids
grow with time. Every second bid is for the hot auction of the moment, three of four bids are by a hot bidder, three of
four auctions are by a hot seller; the others are spread over those that are active. Some bids come after their auction
has closed. Event times grow steadily, but the files tell the events out of order, by no more than `disorder_ms`.

The same seed gives the same files. Everything is computed on whole columns: ten million events take some seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

Integers = npt.NDArray[np.int64]

EVENTS_PER_ROUND = 50
AUCTIONS_PER_ROUND = 3
BIDS_PER_ROUND = 46
#: The first of its kind.
FIRST_PERSON, FIRST_AUCTION, FIRST_CATEGORY = 1_000, 1_000, 10
CATEGORIES = 5
#: Auctions are bid for, and people act, while they are among the newest so many.
ACTIVE_AUCTIONS, ACTIVE_PEOPLE = 100, 1_000
#: Everybody looks at one of so many.
HOT_AUCTIONS, HOT_PEOPLE = 100, 100
#: Of the bids, and of the bidders and sellers.
HOT_AUCTION_SHARE, HOT_PERSON_SHARE = 0.5, 0.75
BASE_TIME_MS = 1_436_918_400_000  # 2015-07-15, as in the original

STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
CITIES = (
    "Phoenix",
    "Los Angeles",
    "San Francisco",
    "Boise",
    "Portland",
    "Bend",
    "Redmond",
    "Seattle",
    "Kent",
    "Cheyenne",
)
FIRST_NAMES = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
LAST_NAMES = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")

TIME = pa.timestamp("ms", "UTC")
PERSON = pa.schema(
    [("id", pa.int64()), ("name", pa.string()), ("city", pa.string()), ("state", pa.string()), ("date_time", TIME)]
)
AUCTION = pa.schema(
    [
        ("id", pa.int64()),
        ("seller", pa.int64()),
        ("category", pa.int64()),
        ("initial_bid", pa.int64()),
        ("expires", TIME),
        ("date_time", TIME),
    ]
)
BID = pa.schema([("auction", pa.int64()), ("bidder", pa.int64()), ("price", pa.int64()), ("date_time", TIME)])


@dataclass(frozen=True, slots=True)
class Scale:
    """How much happens, how fast, and in which portions it is written."""

    events: int
    events_per_second: float = 10_000
    disorder_ms: int = 2_000
    #: Times are whole multiples of this: larger, and more events share theirs.
    tick_ms: int = 1
    seed: int = 0
    #: A part of the files of each kind holds so many consecutive events of all kinds.
    events_per_file: int = 500_000
    rows_per_group: int = 131_072


def write(folder: Path, scale: Scale) -> None:
    """`person/`, `auction/` and `bid/` with typed Parquet files; the names of the files are in the order of time."""
    for part, first in enumerate(range(0, scale.events, scale.events_per_file)):
        numbers = np.arange(first, min(first + scale.events_per_file, scale.events), dtype=np.int64)
        random = np.random.default_rng((scale.seed, part))
        in_round = numbers % EVENTS_PER_ROUND
        kinds: dict[str, tuple[npt.NDArray[np.bool_], Callable[..., pa.Table]]] = {
            "person": (in_round < 1, people),
            "auction": ((in_round >= 1) & (in_round < 1 + AUCTIONS_PER_ROUND), auctions),
            "bid": (in_round >= 1 + AUCTIONS_PER_ROUND, bids),
        }
        for kind, (chosen, make) in kinds.items():
            table: pa.Table = make(numbers[chosen], scale, random)
            if table.num_rows:
                target = folder / kind / f"part-{part:05d}.parquet"
                target.parent.mkdir(parents=True, exist_ok=True)
                told = table.take(pa.array(_order_of_telling(table, scale, random)))
                pq.write_table(told, target, row_group_size=scale.rows_per_group)


def people(numbers: Integers, scale: Scale, random: np.random.Generator) -> pa.Table:
    names = [f"{first} {last}" for first in FIRST_NAMES for last in LAST_NAMES]
    columns = [
        _last_person(numbers),
        _texts(names, random, len(numbers)),
        _texts(CITIES, random, len(numbers)),
        _texts(STATES, random, len(numbers)),
        _times(numbers, scale),
    ]
    return _table(columns, PERSON)


def auctions(numbers: Integers, scale: Scale, random: np.random.Generator) -> pa.Table:
    count = len(numbers)
    opened = _times(numbers, scale)
    # On average they are open while the active ones are replaced once.
    rounds = ACTIVE_AUCTIONS / AUCTIONS_PER_ROUND
    longest_ms = max(2, round(2_000 * rounds * EVENTS_PER_ROUND / scale.events_per_second))
    columns = [
        _last_auction(numbers),
        _person(numbers, random),
        FIRST_CATEGORY + random.integers(0, CATEGORIES, count),
        _prices(random, count),
        opened + random.integers(1, longest_ms, count),
        opened,
    ]
    return _table(columns, AUCTION)


def bids(numbers: Integers, scale: Scale, random: np.random.Generator) -> pa.Table:
    count = len(numbers)
    newest = _last_auction(numbers)
    is_hot = random.random(count) < HOT_AUCTION_SHARE
    hot = newest // HOT_AUCTIONS * HOT_AUCTIONS
    active = newest - random.integers(0, ACTIVE_AUCTIONS, count)
    auction = np.maximum(np.where(is_hot, hot, active), FIRST_AUCTION)
    return _table([auction, _person(numbers, random), _prices(random, count), _times(numbers, scale)], BID)


def _last_person(numbers: Integers) -> Integers:
    """The id of the newest person at the time of an event; of the one that registers, if that is the event."""
    return FIRST_PERSON + numbers // EVENTS_PER_ROUND


def _last_auction(numbers: Integers) -> Integers:
    rounds, in_round = numbers // EVENTS_PER_ROUND, numbers % EVENTS_PER_ROUND
    # A person comes first in every round; the auctions follow.
    opened = np.minimum(in_round, AUCTIONS_PER_ROUND)
    return FIRST_AUCTION + rounds * AUCTIONS_PER_ROUND + opened - 1


def _person(numbers: Integers, random: np.random.Generator) -> Integers:
    """Who sells or bids."""
    newest = _last_person(numbers)
    is_hot = random.random(len(numbers)) < HOT_PERSON_SHARE
    active = newest - random.integers(0, ACTIVE_PEOPLE, len(numbers))
    return np.maximum(np.where(is_hot, newest // HOT_PEOPLE * HOT_PEOPLE, active), FIRST_PERSON)


def _prices(random: np.random.Generator, count: int) -> Integers:
    """In cents: as many between 1 and 10 dollars as between 100,000 and a million."""
    return np.round(100 * 10 ** (6 * random.random(count))).astype(np.int64)


def _times(numbers: Integers, scale: Scale) -> Integers:
    elapsed_ms = (numbers * (1_000 / scale.events_per_second)).astype(np.int64)
    return BASE_TIME_MS + elapsed_ms // scale.tick_ms * scale.tick_ms


def _order_of_telling(table: pa.Table, scale: Scale, random: np.random.Generator) -> Integers:
    times: Integers = table.column("date_time").cast(pa.int64()).to_numpy()
    told_at = times + random.integers(0, scale.disorder_ms + 1, len(times))
    return np.argsort(told_at, kind="stable")


def _texts(choices: tuple[str, ...] | list[str], random: np.random.Generator, count: int) -> pa.Array:
    codes = pa.array(random.integers(0, len(choices), count), pa.int32())
    return pa.DictionaryArray.from_arrays(codes, pa.array(choices)).cast(pa.string())


def _table(columns: list[Integers | pa.Array], schema: pa.Schema) -> pa.Table:
    arrays = [
        column if isinstance(column, pa.Array) else pa.array(column).cast(field.type)
        for column, field in zip(columns, schema, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=schema)

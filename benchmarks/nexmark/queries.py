"""How are Nexmark's questions asked in Cutwater?

Each query is a function of an environment and a folder that `generator.write` has filled; it returns the stream of its
results. They read typed files, and stay on columns wherever no user's function is needed: q1 and q2 never see a
Python object per event, q5, q7 and q8 only for the few rows that are left of each batch; q3 and q4 keep state of their
own, for the events that pass their filters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import cutwater as cw

#: How far behind the newest an event may be told: `generator.Scale.disorder_ms` at most.
DISORDER = "2s"
EUROS_PER_DOLLAR = 0.908
SELECTED_AUCTIONS = 123
LOCAL_STATES = ("OR", "ID", "CA")
LOCAL_CATEGORY = 10
HOT_SIZE, HOT_EVERY = "10s", "2s"
HIGHEST_SIZE = "10s"
NEW_USERS_SIZE = "10s"

WINNING_BID = pa.schema([("auction", pa.int64()), ("category", pa.int64()), ("price", pa.int64())])


def q1_currency_conversion(env: cw.Environment, folder: Path) -> cw.DataStream:
    """Every bid, with its price in euros."""
    return _read(env, folder, "bid").select("auction", "bidder", "date_time", price=cw.col("price") * EUROS_PER_DOLLAR)


def q2_selection(env: cw.Environment, folder: Path) -> cw.DataStream:
    """The bids for some auctions."""
    selected = cw.col("auction") % SELECTED_AUCTIONS == 0
    return _read(env, folder, "bid").filter(selected).select("auction", "price")


def q3_local_items(env: cw.Environment, folder: Path) -> cw.DataStream:
    """Who sells something of one category in some states? Without a bound in time: a person may sell years later."""
    sellers = _read(env, folder, "person").filter(cw.col("state").is_in(LOCAL_STATES))
    items = _read(env, folder, "auction").filter(cw.col("category") == LOCAL_CATEGORY)
    people = sellers.select("id", "name", "city", "state").key_by("id")
    return people.connect(items.select("seller", "id").key_by("seller")).process(LocalItems(), uid="local-items")


class LocalItems:
    """Of one person: who it is, once that is known, and until then what it sells. A person registers once."""

    def open(self, context: Any) -> None:
        self._person = context.value_state("person")
        self._waiting = context.list_state("waiting")

    def process1(self, person: Any, context: Any) -> Iterator[tuple[str, str, str, int]]:
        known = (person.name, person.city, person.state)
        self._person.update(known)
        for auction in self._waiting.get():
            yield (*known, auction)
        self._waiting.clear()

    def process2(self, auction: Any, context: Any) -> Iterator[tuple[str, str, str, int]]:
        known = self._person.value()
        if known is None:
            self._waiting.add(auction.id)
        else:
            yield (*known, auction.id)


def q4_average_price(env: cw.Environment, folder: Path) -> cw.DataStream:
    """What do auctions of each category bring on average? A new answer for each auction that closes with a bid."""
    auctions = _timed(env, folder, "auction").key_by("id")
    bids = _timed(env, folder, "bid").select("auction", "price").key_by("auction")
    winning = auctions.connect(bids).process(WinningBids(), uid="winning-bids").with_schema(WINNING_BID)
    return winning.key_by("category").aggregate(price=cw.agg.mean("price"), auctions=cw.agg.count(), uid="average")


class WinningBids:
    """Of one auction: its category and end, once they are known, and the best bid; or the bids that were told first.

    The winner is known when event time has passed the end of the auction: no bid of its lifetime can follow.
    """

    def open(self, context: Any) -> None:
        self._auction = context.value_state("auction")
        self._best = context.value_state("best", default=0)
        self._early = context.list_state("early")

    def process1(self, auction: Any, context: Any) -> None:
        opened_ms, expires_ms = context.timestamp_ms, _milliseconds(auction.expires)
        self._auction.update((auction.id, auction.category, opened_ms, expires_ms))
        valid = [price for time_ms, price in self._early.get() if opened_ms <= time_ms <= expires_ms]
        self._best.update(max(valid, default=0))
        self._early.clear()
        context.register_event_timer(expires_ms)

    def process2(self, bid: Any, context: Any) -> None:
        time_ms, auction = context.timestamp_ms, self._auction.value()
        if auction is None:
            self._early.add((time_ms, bid.price))
            context.register_event_timer(time_ms)
        elif auction[2] <= time_ms <= auction[3] and bid.price > self._best.value():
            self._best.update(bid.price)

    def on_timer(self, time_ms: int, context: Any) -> Iterator[tuple[int, int, int]]:
        auction = self._auction.value()
        if auction is None:
            # An auction that is not known by now opened later than these bids, or has closed: they count for nothing.
            waiting = [early for early in self._early.get() if early[0] > time_ms]
            self._early.update(waiting) if waiting else self._early.clear()
        elif time_ms >= auction[3]:
            best = self._best.value()
            if best:
                yield auction[0], auction[1], best
            self._auction.clear()
            self._best.clear()


def q5_hot_items(env: cw.Environment, folder: Path) -> cw.DataStream:
    """Which auctions had the most bids in the last ten seconds? (start of the window, auction, bids), every two."""
    counts = _timed(env, folder, "bid").key_by("auction").window(cw.sliding(HOT_SIZE, HOT_EVERY)).count(uid="bids")
    # All counts of a window have one event time, so that they meet again in the tumbling window that it lies in.
    hottest = counts.map_batches(hottest_of_batch, uid="hottest-of-batch")
    return hottest.key_by("window_start").window(cw.tumbling(HOT_EVERY)).process(hottest_of_window, uid="hottest")


def hottest_of_batch(counts: pa.RecordBatch) -> pa.RecordBatch:
    """Of each window the rows with the highest count: one of these wins."""
    return _rows_with_highest(counts, "count", counts.column("window_start").cast(pa.int64()).to_numpy())


def hottest_of_window(start: Any, counts: list[Any], context: Any) -> Iterable[tuple[Any, int, int]]:
    most = max(row.count for row in counts)
    return [(start, row.auction, row.count) for row in counts if row.count == most]


def q7_highest_bid(env: cw.Environment, folder: Path) -> cw.DataStream:
    """The highest bid of every ten seconds; all of them, if several are as high. (auction, bidder, price, time)"""
    bids = _timed(env, folder, "bid").with_columns(window=cw.col("date_time").floor(HIGHEST_SIZE))
    highest = bids.map_batches(highest_of_batch, uid="highest-of-batch")
    return highest.key_by("window").window(cw.tumbling(HIGHEST_SIZE)).process(highest_of_window, uid="highest")


def highest_of_batch(bids: pa.RecordBatch) -> pa.RecordBatch:
    return _rows_with_highest(bids, "price", bids.column("window").cast(pa.int64()).to_numpy())


def highest_of_window(window: Any, bids: list[Any], context: Any) -> Iterable[tuple[int, int, int, Any]]:
    highest = max(bid.price for bid in bids)
    return [(bid.auction, bid.bidder, bid.price, bid.date_time) for bid in bids if bid.price == highest]


def q8_new_users(env: cw.Environment, folder: Path) -> cw.DataStream:
    """Who registered and opened an auction in the same ten seconds? Once for each, however many auctions."""
    window = cw.tumbling(NEW_USERS_SIZE)
    people = _timed(env, folder, "person").select("id", "name")
    # One row for each seller and window, at the window's last moment: in the same window still.
    sellers = _timed(env, folder, "auction").key_by("seller").window(window).count(uid="sellers")
    joined = people.key_by("id").join(sellers.key_by("seller"), window=window, uid="new-users")
    return joined.select("id", "name", "window_start")


def _read(env: cw.Environment, folder: Path, kind: str) -> cw.DataStream:
    return env.from_source(cw.sources.files(Path(folder) / kind, format="parquet"), uid=kind)


def _timed(env: cw.Environment, folder: Path, kind: str) -> cw.DataStream:
    return _read(env, folder, kind).assign_timestamps("date_time", cw.watermarks.bounded(DISORDER))


def _rows_with_highest(batch: pa.RecordBatch, column: str, groups: Any) -> pa.RecordBatch:
    """Of each group the rows whose value is the highest of the batch."""
    values = batch.column(column).to_numpy()
    _, group_of = np.unique(groups, return_inverse=True)
    highest = np.full(int(group_of.max()) + 1, np.iinfo(np.int64).min)
    np.maximum.at(highest, group_of, values)
    return batch.filter(pa.array(values == highest[group_of]))


def _milliseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1_000)

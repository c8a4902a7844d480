"""What is the right answer? DuckDB's, from the same files, in SQL that looks like Nexmark's own.

A query's results and the answer are brought into the same shape, a multiset of rows, and compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.nexmark import queries

Answer = Counter[tuple[Any, ...]]

SQL = {
    "q1": f"SELECT auction, bidder, epoch_ms(date_time), price * {queries.EUROS_PER_DOLLAR}::DOUBLE FROM bid",
    "q2": f"SELECT auction, price FROM bid WHERE auction % {queries.SELECTED_AUCTIONS} = 0",
    "q3": f"""
        SELECT p.name, p.city, p.state, a.id FROM auction a JOIN person p ON a.seller = p.id
        WHERE a.category = {queries.LOCAL_CATEGORY} AND p.state IN {queries.LOCAL_STATES}
    """,
    "q4": """
        SELECT category, avg(final), count(*) FROM (
            SELECT a.category, max(b.price) AS final FROM auction a JOIN bid b ON a.id = b.auction
            WHERE b.date_time BETWEEN a.date_time AND a.expires GROUP BY a.id, a.category
        ) GROUP BY category
    """,
    "q5": """
        WITH counts AS (
            SELECT epoch_ms(date_time) // 2000 * 2000 - back AS start, auction, count(*) AS bids
            FROM bid, range(0, 10000, 2000) AS windows(back) GROUP BY ALL
        )
        SELECT start, auction, bids FROM counts QUALIFY bids = max(bids) OVER (PARTITION BY start)
    """,
    "q7": """
        SELECT auction, bidder, price, epoch_ms(date_time) FROM bid
        QUALIFY price = max(price) OVER (PARTITION BY epoch_ms(date_time) // 10000)
    """,
    "q8": """
        SELECT DISTINCT p.id, p.name, epoch_ms(p.date_time) // 10000 * 10000 FROM person p
        JOIN auction a ON p.id = a.seller AND epoch_ms(p.date_time) // 10000 = epoch_ms(a.date_time) // 10000
    """,
}


def answer(query: str, folder: Path) -> Answer:
    """DuckDB's."""
    import duckdb  # the job's own process has no use for it

    with duckdb.connect() as connection:
        for kind in ("person", "auction", "bid"):
            connection.execute(f"CREATE VIEW {kind} AS SELECT * FROM '{folder}/{kind}/*.parquet'")
        return Counter(connection.execute(SQL[query]).fetchall())


def found(query: str, results: Iterable[Any]) -> Answer:
    """A job's, in the same shape."""
    return _SHAPES.get(query, _rows)(results)


def verify(query: str, results: Iterable[Any], folder: Path) -> None:
    """Raises unless these are the right results, all of them, each once."""
    expected, got = answer(query, folder), found(query, results)
    if got != expected:
        missing, extra = expected - got, got - expected
        raise AssertionError(
            f"{query}: {missing.total()} of {expected.total()} results are missing, {extra.total()} are too many\n"
            f"  missing: {list(missing)[:3]}\n  extra:   {list(extra)[:3]}"
        )


def _rows(results: Iterable[Any]) -> Answer:
    return Counter(tuple(map(_plain, row)) for row in results)


def _final_averages(results: Iterable[Any]) -> Answer:
    """The newest of each category; on the way there each number of auctions came once."""
    newest: dict[int, tuple[int, float]] = {}
    steps: Counter[int] = Counter()
    for category, price, auctions in results:
        steps[category] += 1
        newest[category] = max(newest.get(category, (0, 0.0)), (auctions, price))
    for category, (auctions, _) in newest.items():
        if steps[category] != auctions:
            raise AssertionError(f"q4: category {category} has {steps[category]} steps to {auctions} auctions")
    return Counter((category, price, auctions) for category, (auctions, price) in newest.items())


def _plain(value: Any) -> Any:
    return round(value.timestamp() * 1_000) if isinstance(value, datetime) else value


_SHAPES: dict[str, Callable[[Iterable[Any]], Answer]] = {"q4": _final_averages}

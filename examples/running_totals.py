"""What has each customer spent so far? Orders from CSV or Parquet, totals out as Parquet.

The stream is typed: the source gives Arrow batches, `key_by("customer")` and `sum("cents")` name columns.

Run it: `cutwater run examples/running_totals.py`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

import cutwater as cw

ORDERS = pa.schema([("order", pa.int64()), ("customer", pa.string()), ("cents", pa.int64())])
TOTALS = pa.schema([("customer", pa.string()), ("total_cents", pa.int64())])


def build(
    env: cw.Environment,
    input_folder: Path,
    output_folder: Path,
    *,
    format: Literal["csv", "parquet"] = "csv",  # noqa: A002
) -> None:
    orders = cw.sources.files(input_folder / "orders" / f"*.{format}", format=format, schema=ORDERS)
    (
        env.from_source(orders, uid="orders")
        .key_by("customer")
        .sum("cents", uid="totals")
        .map(as_row, uid="rows")
        .sink_to(cw.sinks.parquet(output_folder, schema=TOTALS), uid="out")
    )


def as_row(summed: tuple[str, int]) -> dict[str, Any]:
    customer, total_cents = summed
    return {"customer": customer, "total_cents": total_cents}


if __name__ == "__main__":
    from data import workspace, write_orders_as_csv

    folders = workspace("running-totals", write_orders_as_csv)
    env = cw.Environment(parallelism=2, checkpoints=cw.Checkpoints(every="500ms", storage=folders.checkpoints))
    build(env, folders.input, folders.output)
    env.execute("running totals", require="exactly_once")
    print(f"the totals are in {folders.output}")

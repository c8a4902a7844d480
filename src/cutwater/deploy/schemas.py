"""Columns of Spark as columns of Arrow, and back: how are they the same with every version of PySpark?

The versions differ in what must be said about time zones, and in what holds when nothing is. Here an instant is in UTC,
and a time without a zone stays without one.
"""

from __future__ import annotations

import inspect
from typing import Any, cast

import pyarrow as pa


def arrow_schema(struct: Any) -> pa.Schema:
    from pyspark.sql.pandas.types import to_arrow_schema

    # Versions that don't ask for the zone take UTC.
    asks_for_zone = "timezone" in inspect.signature(to_arrow_schema).parameters
    return to_arrow_schema(struct, timezone="UTC") if asks_for_zone else to_arrow_schema(struct)


def spark_schema(schema: pa.Schema) -> Any:
    from pyspark.sql.pandas.types import from_arrow_schema

    return cast(Any, from_arrow_schema(schema, prefer_timestamp_ntz=True))

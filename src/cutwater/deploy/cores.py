"""How many cores can a Spark have, at most?

Only where it is certain: a local master has as many as it says, a cluster as many as its settings allow this
application. Then a job that needs more is refused at once. Anywhere else executors may still come.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from cutwater.errors import SlotsMissingError

_LOCAL = re.compile(r"local(?:\[\s*(\d+|\*)\s*(?:,\s*\d+\s*)?\])?")
_LOCAL_CLUSTER = re.compile(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,\s*\d+\s*\]")

Setting = Callable[[str], str | None]
"""The value of a setting of Spark, or None."""


def cores_at_most(setting: Setting, *, processors: int) -> int | None:
    """None: nobody knows. `processors` are those of this machine."""
    master = setting("spark.master") or ""
    local = _LOCAL.fullmatch(master)
    if local is not None:
        return processors if local[1] == "*" else int(local[1] or 1)
    cluster = _LOCAL_CLUSTER.fullmatch(master)
    if cluster is not None:
        return int(cluster[1]) * int(cluster[2])
    if master.startswith("spark:"):
        return _number(setting("spark.cores.max"))
    return _of_fixed_executors(setting)


def refuse_too_few(setting: Setting, *, processors: int, slots: int, job: str, spare: int = 0) -> None:
    """Raises `SlotsMissingError` if the slots of a job, and `spare` tasks besides, can never run at the same time."""
    cores, per_slot = cores_at_most(setting, processors=processors), _number(setting("spark.task.cpus")) or 1
    if cores is not None and cores < (slots + spare) * per_slot:
        enough = (slots + spare) * per_slot + 1
        beside = f" and {spare} more for Spark jobs of its sources and sinks" if spare else ""
        each = "" if per_slot == 1 else f", each slot {per_slot} (spark.task.cpus)"
        raise SlotsMissingError(
            f"job {job!r} needs {slots} slots{beside}, and this Spark has room for {cores // per_slot}",
            detail=f"its master {setting('spark.master')} has {cores} core{'' if cores == 1 else 's'} at most{each}",
            hint=f'lower the parallelism, or give Spark more cores, e.g. master("local[{enough}]")',
        )


def _of_fixed_executors(setting: Setting) -> int | None:
    if (setting("spark.dynamicAllocation.enabled") or "false").lower() == "true":
        return None
    executors, cores = _number(setting("spark.executor.instances")), _number(setting("spark.executor.cores"))
    return None if executors is None or cores is None else executors * cores


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.strip().isdigit() else None

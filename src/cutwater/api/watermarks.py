"""How does a stream know that event time has come to a certain point?

A watermark says that no earlier record will follow. It is never certain: what comes later all the same is late, and
windows count it, drop it, or hand it out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypedDict, Unpack

from cutwater.config import refuse_unknown
from cutwater.durations import Duration, parse_duration
from cutwater.errors import ConfigurationError
from cutwater.protocol.event_time import WatermarkStrategy


class WatermarkSettings(TypedDict, total=False):
    """What every strategy takes besides its own arguments."""

    #: A split, or a stream, that gave nothing for this long holds event time back no longer.
    idle_after: Duration
    #: Splits further ahead than this of the slowest source of the same group wait for it.
    max_drift: Duration
    #: Sources that are aligned with each other by `max_drift`.
    group: str
    #: At most one watermark in this time while records are dense.
    every: Duration
    #: A timestamp further ahead of the wall clock can't be true; a day if left out, None: anything goes.
    max_ahead: Duration | None
    #: What happens to a record whose timestamp is missing or can't be true.
    bad_timestamps: Literal["fail", "drop"]


def monotonous(**settings: Unpack[WatermarkSettings]) -> WatermarkStrategy:
    """Timestamps never go back within a split."""
    return _strategy("bounded", settings)


def bounded(out_of_orderness: Duration, **settings: Unpack[WatermarkSettings]) -> WatermarkStrategy:
    """No record is older than the newest before it by more than this, within a split."""
    bound = parse_duration(out_of_orderness, option="out_of_orderness")
    return _strategy("bounded", settings, out_of_orderness_ms=round(bound * 1000))


def injected(**settings: Unpack[WatermarkSettings]) -> WatermarkStrategy:
    """The source's readers say (`SplitReader.watermark_ms`)."""
    return _strategy("injected", settings)


def refuse_settings_of_source(settings: Mapping[str, Any]) -> None:
    """Raises for settings that need an operator: a source assigns the timestamps of its own stream itself."""
    for name in ("parallelism", "chaining"):
        if name in settings:
            raise ConfigurationError(
                f"assign_timestamps has no {name} of its own on a source's own stream: the source does it",
                hint=f"give {name} to from_source",
            )


def refuse_without_source(strategy: WatermarkStrategy) -> None:
    """Raises for a strategy that only a source can follow."""
    needed = "injected watermarks come" if strategy.kind == "injected" else "max_drift works"
    if strategy.kind == "injected" or strategy.max_drift_ms is not None:
        raise ConfigurationError(
            f"{needed} from a source's splits, and this stream is no source's own",
            hint="call assign_timestamps on what env.from_source returned, before any other operation",
        )


def custom(generator: Callable[[], Any], **settings: Unpack[WatermarkSettings]) -> WatermarkStrategy:
    """`generator()` is called for every split. Its `on_event(record, timestamp_ms)` is asked for every record, its
    `on_periodic()` after every batch, and every `every` while there is none; each returns a watermark in milliseconds,
    or None. A generator starts anew after a restore, but time goes on from where it was."""
    if not callable(generator):
        raise ConfigurationError(f"custom needs a class or a function that makes a generator, not {generator!r}")
    return _strategy("custom", settings, generator=generator)


def _strategy(
    kind: Literal["bounded", "injected", "custom"], settings: WatermarkSettings, **values: Any
) -> WatermarkStrategy:
    refuse_unknown(settings, WatermarkSettings.__annotations__, of="a watermark strategy")
    if "idle_after" in settings:
        values["idle_after_seconds"] = parse_duration(settings["idle_after"], option="idle_after")
    if "max_drift" in settings:
        values["max_drift_ms"] = round(parse_duration(settings["max_drift"], option="max_drift") * 1000)
    if "group" in settings:
        if not isinstance(settings["group"], str):
            raise ConfigurationError(f"a group is a name, not {settings['group']!r}")
        values["group"] = settings["group"]
    if "every" in settings:
        values["every_seconds"] = parse_duration(settings["every"], option="every")
    if "max_ahead" in settings:
        ahead = settings["max_ahead"]
        values["max_ahead_ms"] = None if ahead is None else round(parse_duration(ahead, option="max_ahead") * 1000)
    policy = settings.get("bad_timestamps", "fail")
    if policy not in ("fail", "drop"):
        raise ConfigurationError(f"bad_timestamps can't be {policy!r}", hint='choose "fail" or "drop"')
    return WatermarkStrategy(kind=kind, bad_timestamps=policy, **values)

"""What a type checker finds out about a program. Never run: `test_types.py` gives it to mypy.

Lines that end with `# wrong: …` are mistakes that must be found, and no others may be.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, assert_type

import pyarrow as pa

import cutwater as cw


class Click(NamedTuple):
    user: str
    ms: int


class Session:
    """Remembers how often a user has clicked."""

    def open(self, context: cw.ProcessContext) -> None:
        self.clicks = context.value_state("clicks", 0)
        self.pages = context.list_state("pages")
        self.last = context.value_state("last", type=Click)

    def process(self, click: Click, context: cw.ProcessContext) -> Iterator[tuple[str, int]]:
        assert_type(self.clicks, cw.ValueState[int])
        assert_type(self.last.value(), Click | None)
        self.clicks.update(self.clicks.value() + 1)
        self.clicks.update("many")  # wrong: arg-type
        assert_type(context.timestamp_ms, int | None)
        context.register_event_timer(click.ms + 1_000)
        context.register_event_time_timer(click.ms)  # wrong: attr-defined
        yield click.user, self.clicks.value()


def describe(key: str, clicks: list[Click], context: cw.WindowContext) -> Iterator[str]:
    yield f"{key}: {len(clicks)}"


def alarm(click: Click, context: cw.ProcessContext) -> None:
    context.emit(click.user)


async def looked_up(click: Click) -> bytes:
    return click.user.encode()


def program(env: cw.Environment, untyped: cw.DataStream) -> None:
    lines = env.from_source(cw.sources.files("clicks.txt"))
    numbers = env.from_source(cw.sources.generator(lambda index: index * 2, count=10))
    assert_type(numbers, cw.DataStream[int])
    words = env.from_collection(["to be", "or not"]).flat_map(str.split)
    assert_type(words, cw.DataStream[str])
    assert_type(words.map(len), cw.DataStream[int])
    assert_type(words.filter(lambda word: word.isalpha()), cw.DataStream[str])
    assert_type(words.limit(3).execute_and_collect(), list[str])
    words.map(lambda word: word.no_such_method())  # wrong: attr-defined
    words.flat_map(len)  # wrong: arg-type
    words.groupBy("word")  # wrong: attr-defined

    clicks = words.map(lambda word: Click(word, 1))
    assert_type(clicks, cw.DataStream[Click])
    by_user = clicks.key_by(lambda click: click.user)
    assert_type(by_user, cw.KeyedStream[str, Click])
    clicks.key_by(lambda click: click.name)  # wrong: attr-defined
    assert_type(clicks.key_by("user"), cw.KeyedStream[Any, Click])
    assert_type(by_user.count(), cw.DataStream[cw.Row])
    by_user.count().map(lambda row: row.count)
    assert_type(by_user.process(Session()), cw.DataStream[tuple[str, int]])
    words.process(Session())  # wrong: arg-type
    assert_type(by_user.process(alarm), cw.DataStream[Any])
    assert_type(by_user.reduce(lambda one, other: max(one, other)), cw.DataStream[Click])
    by_user.reduce(lambda one, other: one.ms + other.ms)  # wrong: return-value
    assert_type(clicks.async_map(looked_up), cw.DataStream[bytes])
    assert_type(words.union(numbers), cw.DataStream[str | int])

    windows = by_user.window(cw.tumbling("10 seconds"))
    assert_type(windows, cw.WindowedStream[str, Click])
    assert_type(windows.process(describe), cw.DataStream[str])
    assert_type(windows.count(), cw.DataStream[cw.Row])
    clicks.key_by(lambda click: click.ms).window(cw.tumbling("1s")).process(describe)  # wrong: arg-type
    joined = by_user.join(words.key_by(str), between=("0s", "1s"), select=lambda click, word: click.ms + len(word))
    assert_type(joined, cw.DataStream[int])
    assert_type(by_user.connect(words.key_by(str)), cw.ConnectedStreams[Click, str])
    assert_type(lines.with_schema(pa.schema([])), cw.DataStream[cw.Row])

    untyped.map(lambda anything: anything.whatever()).key_by(lambda anything: anything.key).count()

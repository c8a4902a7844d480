"""Which pipelines are there?

    pipeline := branch (meeting branch)* stage* ending sink
    branch   := source stage*

A seed draws one. Everything in it is a value (`sources`, `stages`, `windows`, `meetings`, `endings`), so the same
pipeline can be built again, laid out otherwise or changed, and its model computed from the rows that were read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import TypeVar

from cutwater.protocol.modes import CheckpointMode
from cutwater.testing.simulation.pipelines import endings, meetings, stages, windows
from cutwater.testing.simulation.pipelines.endings import Ending
from cutwater.testing.simulation.pipelines.meetings import Meeting
from cutwater.testing.simulation.pipelines.pipeline import Branch, Pipeline, SinkKind
from cutwater.testing.simulation.pipelines.rows import Form
from cutwater.testing.simulation.pipelines.sources import Time, draw_source
from cutwater.testing.simulation.pipelines.stages import KeyStyle, Stage
from cutwater.testing.simulation.pipelines.windows import FOLDS, Cut, Fold

T = TypeVar("T")

#: State on disk costs ten times as much as state in memory: once in so many pipelines.
ROCKSDB_RATE = 0.04
FORMS: tuple[Form, ...] = ("objects", "typed")
KEY_STYLES: tuple[KeyStyle, ...] = ("column", "column", "function")
FAILING: tuple[stages.FailingOperation, ...] = ("map", "async_map", "flat_map", "filter", "process")
FIRST_SOURCE = "source0"
TIMES: dict[Time, int] = {"none": 8, "kept": 8, "restless": 4}
MODES = {CheckpointMode.EXACTLY_ONCE: 16, CheckpointMode.AT_LEAST_ONCE: 2, CheckpointMode.NONE: 2}


def draw_pipeline(random: Random, time: Time | None = None) -> Pipeline:
    """The pipeline of a seed; of one that has such a time, if it is given."""
    mode = _weighted(random, MODES) if time is None else CheckpointMode.EXACTLY_ONCE
    if time is None:
        time = _draw_time(random, mode)
    draw = _Draw(random, time)
    count = 1 if mode is CheckpointMode.NONE else random.choice((1, 1, 1, 2, 2, 3) if time != "restless" else (2, 3))
    met = [draw.meeting() for _ in range(count - 1)] if mode is CheckpointMode.EXACTLY_ONCE else []
    met = met or [meetings.United()] * (count - 1)
    if len(met) > 1 and met[0].gives == "objects":
        draw.common_form = "objects"  # what follows must be able to meet it
        met = [replace(one, on_columns=False) if isinstance(one, meetings.Joined) else one for one in met]
    # When all that comes to a join is idle or has ended, it is idle too, whatever it holds: what it gives at its end
    # would be late where it meets a third stream.
    draw.may_idle = len(met) < 2 or isinstance(met[0], meetings.United)
    branches = [draw.branch(f"source{index}", _versions(met, index)) for index in range(count)]
    common: list[Stage] = []
    for meeting in met:
        draw.form = meeting.gives or draw.form
    common += draw.stateless(random.choice((0, 0, 1)))
    ending = draw.ending(common, mode)
    backend = random.choice(("memory", "filesystem"))
    return Pipeline(
        branches=tuple(branches),
        meetings=tuple(met),
        stages=tuple(common),
        ending=ending,
        sink=_draw_sink(random, ending, mode),
        mode=mode,
        time=time,
        parallelism=random.choice((2, 3) if time == "restless" else (1, 2, 2, 3)),
        backend="rocksdb" if random.random() < ROCKSDB_RATE else backend,
        layout=random.getrandbits(32),
    )


def _draw_time(random: Random, mode: CheckpointMode) -> Time:
    return _weighted(random, TIMES) if mode is CheckpointMode.EXACTLY_ONCE else "none"


def _versions(met: Sequence[Meeting], index: int) -> bool:
    return index > 0 and isinstance(met[index - 1], meetings.LookedUp)


def _draw_sink(random: Random, ending: Ending, mode: CheckpointMode) -> SinkKind:
    """Outputs that passing twice can change only go where they are taken back."""
    repeatable = isinstance(ending, endings.Exact) and mode is CheckpointMode.EXACTLY_ONCE
    return "plain" if repeatable and random.random() < 0.15 else "transactional"


class _Draw:
    """Draws one part after the other; `form` is what the stream is at that point."""

    def __init__(self, random: Random, time: Time) -> None:
        self._random = random
        self._time: Time = time
        self.form: Form = "objects"
        #: All branches end in it, so that they can meet.
        self.common_form: Form = random.choice(FORMS)
        self.may_idle = True

    def branch(self, uid: str, versions: bool) -> Branch:
        random = self._random
        self.form = random.choice(FORMS)
        source = draw_source(
            random,
            uid,
            self._time,
            self.form,
            versions=versions,
            may_idle=self.may_idle,
            ahead=uid == FIRST_SOURCE,
        )
        # What copies versions makes two of one time.
        found = [] if versions else self.stateless(random.choice((0, 0, 1, 2)))
        found += self.fitted(self.common_form)
        return Branch(source, tuple(found))

    def fitted(self, form: Form | None) -> list[Stage]:
        """What turns the stream into this form."""
        if form is None or form == self.form:
            return []
        self.form = form
        return [stages.Typed() if form == "typed" else stages.Untyped()]

    def stateless(self, count: int) -> list[Stage]:
        found: list[Stage] = []
        for _ in range(count):
            stage = self._stateless()
            found += [*self.fitted(stage.takes), stage]
            self.form = stage.gives or self.form
        return found

    def _stateless(self) -> Stage:
        random = self._random
        kinds = ["double", "filter", "copy", "fork", "aside", "rebalance", "convert"]
        if self._time != "restless":  # there, tasks have to differ in time: what holds records back evens that out
            kinds += ["ask", "fail"]
        match random.choice(kinds):
            case "double" if self.form == "typed":
                return stages.Doubled("columns" if random.random() < 0.5 else "batches", "typed", "typed")
            case "double":
                return stages.Doubled("map" if random.random() < 0.5 else "in place", "objects", "objects")
            case "ask":
                return stages.Asked(ordered=random.random() < 0.5, capacity=random.choice((1, 5, 100)))
            case "filter":
                return stages.Filtered(by_expression=self.form == "typed" and random.random() < 0.7)
            case "copy":
                return stages.Copied()
            case "fork":
                return stages.Forked()
            case "aside":
                return stages.Aside()
            case "fail":
                return self._failing()
            case "rebalance":
                return stages.Rebalanced()
        return stages.Typed() if self.form == "objects" else stages.Untyped()

    def _failing(self) -> Stage:
        operation = self._random.choice(FAILING)
        # A filter leaves a typed stream typed, which letters can't be united with.
        takes: Form | None = "objects" if operation == "filter" else None
        return stages.Failing(operation, self._random.choice(("skip", "dead_letter", "dead_letter")), takes)

    def meeting(self) -> Meeting:
        random, key = self._random, self._key()
        if self._time == "restless" or random.random() < 0.4:
            return meetings.United()
        if self._time == "none":
            return random.choice((meetings.Connected(key), meetings.Ruled(key)))
        if random.random() < 0.3:
            return meetings.LookedUp(key, by_key=random.random() < 0.5, how=random.choice(("inner", "left")))
        how: meetings.JoinKind = random.choice(("inner", "inner", "left", "right", "full"))
        on_columns = how == "inner" and self.common_form == "typed" and key == "column" and random.random() < 0.6
        if random.random() < 0.5:
            return meetings.Joined(key, how, random.choice(((-10, 10), (0, 30))), None, on_columns)
        return meetings.Joined(key, how, None, random.choice((20, 50)), on_columns)

    def ending(self, before: list[Stage], mode: CheckpointMode) -> Ending:
        """How the pipeline ends; stages that have to stand in front of it are added to those before."""
        random = self._random
        ending: Ending
        if mode is CheckpointMode.NONE:
            ending = random.choice((endings.AsTheyAre(), endings.Repeated(self._key())))
        elif mode is CheckpointMode.AT_LEAST_ONCE:
            ending = random.choice((endings.AsTheyAre(), endings.Tallied(self._key(), None), self._totals("record")))
        elif self._time == "restless":
            ending = self._restless()
        elif self._time == "kept":
            ending = self._timed(before)
        else:
            if random.random() < 0.2:
                self._append(before, stages.RunningCounts(self._key()))
            ending = self._untimed()
        before += self.fitted(ending.takes)
        return ending

    def _restless(self) -> Ending:
        # Long windows that overlap: most of what a key has fired, it could fire again.
        cut, key = self._random.choice((Cut(100, 20), Cut(100, 20), self._cut())), self._key()
        lateness = self._random.choice((0, 0, 20))
        fold = "aggregate(count,sum)" if lateness else self._fold()
        return windows.RestlessWindows(cut, fold, key, lateness, takes=_needed_by(fold))

    def _timed(self, before: list[Stage]) -> Ending:
        random = self._random
        for _ in range(random.choice((0, 1, 1, 1, 2))):
            if random.random() < 0.15:
                self._append(before, windows.Alarmed(self._key(), random.choice((0, 20))))
            else:
                fold = self._fold()
                late = random.random() < 0.3
                self._append(before, windows.Windows(self._cut(), fold, self._key(), late, _needed_by(fold)))
            if random.random() < 0.3:
                self._append(before, stages.Typed() if self.form == "objects" else stages.Untyped())
        if random.random() < 0.65:
            return endings.AsTheyAre()
        if random.random() < 0.3:
            return windows.EarlyResults(self._cut(), self._key(), 20)
        return self._untimed()

    def _untimed(self) -> Ending:
        random, key = self._random, self._key()
        match random.choice(
            ("totals", "totals", "totals", "totals", "reduce", "aggregate", "state", "timer", "window")
        ):
            case "totals":
                return self._totals(self._update())
            case "reduce":
                return endings.ReducedInPlace(key, random.random() < 0.5, self._update())
            case "aggregate":
                return endings.AggregatedInPlace(key, self._update())
            case "state":
                tallied = endings.Tallied(key, random.choice((None, 5)))
                return random.choice((endings.Remembered(key), endings.Folded(key), tallied))
            case "timer":
                return endings.Delayed(key, random.choice((0, 5)))
        fold = self._fold()
        kinds: tuple[Ending, ...] = (
            windows.CountWindows(key, random.choice((1, 3)), fold, _needed_by(fold)),
            windows.GlobalWindow(key, random.choice((1, 3)), purging=random.random() < 0.5),
            windows.ProcessingWindows(key, random.choice((5, 30)), fold, _needed_by(fold)),
        )
        return random.choice(kinds)

    def _totals(self, update: endings.Update) -> Ending:
        names = ["c", "s", *self._random.sample(("lo", "hi", "m"), self._random.choice((0, 3)))]
        self._random.shuffle(names)
        return endings.RunningTotals(self._key(), update, tuple(names))

    def _update(self) -> endings.Update:
        return self._random.choice(("record", "batch", "10ms", "1s"))

    def _append(self, before: list[Stage], stage: Stage) -> None:
        before += [*self.fitted(stage.takes), stage]
        self.form = stage.gives or self.form

    def _cut(self) -> Cut:
        return self._random.choice((Cut(50, 50), Cut(20, 20), Cut(100, 20), Cut(30, 20), Cut(15, None)))

    def _fold(self) -> Fold:
        return self._random.choice((FOLDS[0], *FOLDS))

    def _key(self) -> KeyStyle:
        return self._random.choice(KEY_STYLES)


def _needed_by(fold: Fold) -> Form | None:
    """A function that changes its records needs such as can be changed."""
    return "objects" if fold == "reduce(in place)" else None


def _weighted(random: Random, weights: dict[T, int]) -> T:
    return random.choices(list(weights), list(weights.values()))[0]
